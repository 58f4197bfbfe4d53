// What a CUDA thread knows of its place, and how it meets others: barriers and warps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>

#include "cuda_emulation/qualifiers.hpp"
#include "cuda_emulation/vector_types.hpp"

// One host thread at a time runs kernels. These are set whenever another CUDA thread goes
// on.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace trireme::cuda_emulation {

using Source = std::source_location;

// What lanes of a warp do together; all that meet must mean the same.
enum class WarpOperation : unsigned char {
  sync,
  shfl,
  shfl_up,
  shfl_down,
  shfl_xor,
  ballot,
  any,
  all,
  reduce_add,
  reduce_min,
  reduce_max,
  reduce_and,
  reduce_or,
  reduce_xor,
  match_any,
  ldmatrix,
  mma,
};

enum class BlockOperation : unsigned char { sync, sync_or, sync_and, sync_count };

// The arguments of the lanes that met: arguments[lane] is null for the others.
using Arguments = void* const*;
using Complete = void (*)(Arguments arguments);

// Waits until all lanes of `mask` that have not ended called this with the same operation
// and mask; then `complete` is called once, before any of them goes on. A null `complete`
// only waits.
void meet(WarpOperation operation, unsigned mask, void* argument, Complete complete,
          const Source& where);

// As meet() for operations that hardware does only with all 32 lanes present.
void meet_whole_warp(WarpOperation operation, void* argument, Complete complete,
                     const Source& where);

// Waits until all threads of the block that have not ended called this with the same
// operation. Returns the or, and (0 or 1) or count of the threads whose `predicate` was
// not zero.
int meet_block(BlockOperation operation, int predicate, const Source& where);

unsigned lane_index();

// Ends the process with a message that names the running kernel, block and thread.
[[noreturn]] void fail_in_kernel(const char* message, const Source& where);

}  // namespace trireme::cuda_emulation

inline void __syncthreads(
    const std::source_location& where = std::source_location::current()) {
  using namespace trireme::cuda_emulation;
  meet_block(BlockOperation::sync, 0, where);
}
inline int __syncthreads_or(
    int predicate, const std::source_location& where = std::source_location::current()) {
  using namespace trireme::cuda_emulation;
  return meet_block(BlockOperation::sync_or, predicate, where);
}
inline int __syncthreads_and(
    int predicate, const std::source_location& where = std::source_location::current()) {
  using namespace trireme::cuda_emulation;
  return meet_block(BlockOperation::sync_and, predicate, where);
}
inline int __syncthreads_count(
    int predicate, const std::source_location& where = std::source_location::current()) {
  using namespace trireme::cuda_emulation;
  return meet_block(BlockOperation::sync_count, predicate, where);
}

// One host thread runs all: its writes are seen in order.
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
