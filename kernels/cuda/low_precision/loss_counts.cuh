// How many numbers saturate and how many are flushed, counted over a grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/common/reduce.cuh"

namespace trireme::kernels::cuda {

// What one thread has seen.
struct LossCounts {
  int saturated = 0, flushed = 0;
  __device__ void note(bool saturates, bool vanishes) {
    saturated += saturates ? 1 : 0;
    flushed += vanishes ? 1 : 0;
  }
};

// Adds those of the block to counts, [2]. All threads of the block call it. Whole
// numbers: their sums in f64 do not depend on the order.
__device__ inline void add_losses(const LossCounts& mine, double* counts) {
  const int saturated = block_sum(mine.saturated);
  const int flushed = block_sum(mine.flushed);
  if (threadIdx.x != 0) return;
  if (saturated > 0) atomicAdd(&counts[0], static_cast<double>(saturated));
  if (flushed > 0) atomicAdd(&counts[1], static_cast<double>(flushed));
}

}  // namespace trireme::kernels::cuda
