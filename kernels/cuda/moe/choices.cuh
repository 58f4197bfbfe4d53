// Choices of experts in the order of positions: each warp walks over a segment of them.
// SPDX-License-Identifier: Apache-2.0
// E experts; a choice of -1 is none.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/common/reduce.cuh"

namespace trireme::kernels::cuda {

__device__ inline int lane_of_thread() {
  return static_cast<int>(threadIdx.x) % warp_size;
}
__device__ inline int warp_of_thread() {
  return static_cast<int>(threadIdx.x) / warp_size;
}

// count[e] of this warp = 0.
__device__ inline void clear_counts(std::int64_t E, std::int32_t* count) {
  for (std::int64_t e = lane_of_thread(); e < E; e += warp_size) count[e] = 0;
  __syncwarp();
}

// The lanes whose e, from -1 to E - 1, is this lane's: a vote on each bit of e + 1.
__device__ inline unsigned lanes_of_same(std::int32_t e, std::int64_t E) {
  const std::int64_t value = std::int64_t{e} + 1;
  unsigned same = all_lanes;
  for (std::int64_t bit = 1; bit <= E; bit *= 2) {
    const bool is_set = (value & bit) != 0;
    const unsigned set = __ballot_sync(all_lanes, is_set);
    same &= is_set ? set : ~set;
  }
  return same;
}

// One warp: f(i, e, place) for i in [0, n), with e = choice[i] and place = next[e]++ as
// if one i came after the other; place is -1 where e is -1. next: E counters that no
// other warp touches.
template <class F>
__device__ inline void walk_choices(const std::int32_t* choice, std::int64_t n,
                                    std::int64_t E, std::int32_t* next, const F& f) {
  const int lane = lane_of_thread();
  for (std::int64_t begin = 0; begin < n; begin += warp_size) {
    const std::int64_t i = begin + lane;
    const std::int32_t e = i < n ? choice[i] : -1;
    const unsigned same = lanes_of_same(e, E);
    const int before = __popc(same & ((1u << lane) - 1u));
    const std::int32_t place = e < 0 ? -1 : next[e] + before;
    __syncwarp();
    if (e >= 0 && before == 0) next[e] += __popc(same);
    __syncwarp();
    if (i < n) f(i, e, place);
  }
}

// Sum of x over the lanes before this one.
__device__ inline std::int32_t warp_sum_before(std::int32_t x) {
  const int lane = lane_of_thread();
  std::int32_t sum = x;
#pragma unroll
  for (int distance = 1; distance < warp_size; distance *= 2) {
    const std::int32_t other = __shfl_up_sync(all_lanes, sum, distance);
    if (lane >= distance) sum += other;
  }
  return sum - x;
}

}  // namespace trireme::kernels::cuda
