// Tensor cores, the loads that feed them, and asynchronous copies, as inline PTX.
// SPDX-License-Identifier: Apache-2.0
// They exist from sm_80 on.
//
// Its twin under kernels/cuda_emulation/include emulates each function exactly but for
// the order in which products are added. Layouts are those of the PTX ISA, "Matrix
// Fragments for mma.m16n8k16": with g = lane / 4 and t = lane % 4, and with two
// half-precision numbers (the lower column or row in the lower bits) in a register,
//
//   A, 16 x 16   a[0] = A[g, 2t..]       a[1] = A[g + 8, 2t..]
//                a[2] = A[g, 2t + 8..]   a[3] = A[g + 8, 2t + 8..]
//   B, 16 x 8    b[0] = B[2t.., g]       b[1] = B[2t + 8.., g]
//   D, 16 x 8    d[0..1] = D[g, 2t..]    d[2..3] = D[g + 8, 2t..]
//
// All 32 lanes of a warp call these functions together (cp_async_* and exp2_approx
// excepted).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace trireme::kernels::cuda {

// D += A B in fp32 for A 16 x 16 and B 16 x 8 of T = __nv_bfloat16 or __half.
// d[4]: added to; a[4], b[2]: two numbers each. Source: PTX ISA, mma.sync.m16n8k16.
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float* d, const std::uint32_t* a,
                                             const std::uint32_t* b) {
  static_assert(std::is_same_v<T, __nv_bfloat16> || std::is_same_v<T, __half>);
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

// What PTX calls a shared address, of a generic pointer into shared memory.
__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// Loads four 8 x 8 matrices of 16-bit numbers. `row`, in shared memory and aligned to 16
// bytes: lanes 8i to 8i + 7 name the rows of matrix i. r[4], written: matrix i[lane / 4,
// 2 (lane % 4)..] in r[i]. Source: PTX ISA, ldmatrix.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t* r, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// As ldmatrix_x4, each matrix transposed: r[i] = matrix i[2 (lane % 4).., lane / 4].
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t* r, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// Begins to copy 16 bytes from global to shared memory past the L1 cache; both are
// aligned to 16. Where not `valid`, 16 zeros are written and `global` is not read. Async:
// the bytes are there after cp_async_wait, for other threads after a barrier behind it.
// Source: PTX ISA, cp.async.cg.shared.global.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global,
                                            bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)),
                 "r"(valid ? 16 : 0)
               : "memory");
}

// Makes one group of the thread's copies since the last group. Source: PTX ISA,
// cp.async.commit_group.
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" : : : "memory");
}

// Waits until at most the `pending` latest groups of this thread are still under way.
// Source: PTX ISA, cp.async.wait_group.
template <int pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

// 2^x to about 2 ulp; results and arguments below the normal range count as 0.
// Source: PTX ISA, ex2.approx.ftz.f32.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace trireme::kernels::cuda
