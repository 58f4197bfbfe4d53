// Tensor cores, the loads that feed them, and asynchronous copies, emulated.
// SPDX-License-Identifier: Apache-2.0
// The real header of this name describes each function.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <source_location>
#include <type_traits>

namespace trireme::cuda_emulation {

// Products are exact in fp32; they are added to D one by one in the order of k.
void mma_m16n8k16_bf16(float* d, const std::uint32_t* a, const std::uint32_t* b,
                       const std::source_location& where);
void mma_m16n8k16_fp16(float* d, const std::uint32_t* a, const std::uint32_t* b,
                       const std::source_location& where);
void ldmatrix(std::uint32_t* r, const void* row, bool transposed,
              const std::source_location& where);

// The data arrives at the wait; until then the destination holds bits 1.
void begin_copy(void* shared, const void* global, bool valid,
                const std::source_location& where);
void commit_copies(const std::source_location& where);
void wait_for_copies(unsigned pending, const std::source_location& where);

float exp2_flushed(float x);

}  // namespace trireme::cuda_emulation

#define TRIREME_SOURCE const std::source_location& where = std::source_location::current()

namespace trireme::kernels::cuda {

template <class T>
__device__ void mma_m16n8k16(float* d, const std::uint32_t* a, const std::uint32_t* b,
                             TRIREME_SOURCE) {
  static_assert(std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, __half>);
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    cuda_emulation::mma_m16n8k16_bf16(d, a, b, where);
  } else {
    cuda_emulation::mma_m16n8k16_fp16(d, a, b, where);
  }
}
__device__ inline void ldmatrix_x4(std::uint32_t* r, const void* row, TRIREME_SOURCE) {
  cuda_emulation::ldmatrix(r, row, false, where);
}
__device__ inline void ldmatrix_x4_trans(std::uint32_t* r, const void* row,
                                         TRIREME_SOURCE) {
  cuda_emulation::ldmatrix(r, row, true, where);
}
__device__ inline void cp_async_16(void* shared, const void* global, bool valid,
                                   TRIREME_SOURCE) {
  cuda_emulation::begin_copy(shared, global, valid, where);
}
__device__ inline void cp_async_commit(TRIREME_SOURCE) {
  cuda_emulation::commit_copies(where);
}
template <int pending>
__device__ void cp_async_wait(TRIREME_SOURCE) {
  cuda_emulation::wait_for_copies(static_cast<unsigned>(pending), where);
}
__device__ inline float exp2_approx(float x) { return cuda_emulation::exp2_flushed(x); }

}  // namespace trireme::kernels::cuda

#undef TRIREME_SOURCE
