// Choices of experts cut into segments of one warp each.
// SPDX-License-Identifier: Apache-2.0
// Each segment counts how often it chose each expert. E experts, U segments.
#pragma once

#include "base/tensor_view.hpp"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/moe/choices.cuh"

namespace trireme::kernels::cuda {

inline constexpr std::int64_t segment_choices = 256;
inline constexpr unsigned segments_of_block = 4;

inline std::int64_t segments_of(std::int64_t choices) {
  return (choices + segment_choices - 1) / segment_choices;
}

// A warp for each of U segments, with E counters of its own in dynamic shared memory.
inline Grid segment_grid(std::int64_t U, std::int64_t E) {
  const std::int64_t blocks = (U + segments_of_block - 1) / segments_of_block;
  return {dim3(extent(blocks)), dim3(segments_of_block * warp_size),
          static_cast<std::size_t>(E) * segments_of_block * sizeof(std::int32_t)};
}

// The segment of this thread's warp; may be U or more.
__device__ inline std::int64_t segment_of_warp() {
  return std::int64_t{blockIdx.x} * segments_of_block + warp_of_thread();
}

// Its choices.
struct Segment {
  std::int64_t begin = 0, count = 0;
};
__device__ inline Segment choices_of_segment(std::int64_t u, std::int64_t choices) {
  const std::int64_t begin = u * segment_choices, left = choices - begin;
  return {begin, left < segment_choices ? left : segment_choices};
}

// counts_EU (i32, in the workspace of the stream's device, written): how often segment u
// of the N > 0 choices holds e. Each choice is read once. Throws where E counters for
// each of four warps do not fit into shared memory (6,000 experts do everywhere).
TensorView count_segments(Stream& stream, const std::int32_t* choice_N, std::int64_t N,
                          std::int64_t E);

}  // namespace trireme::kernels::cuda
