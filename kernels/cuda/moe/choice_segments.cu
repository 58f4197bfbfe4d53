// How often each segment of choices holds each expert.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_machine/shared.cuh>

#include "kernels/cuda/common/workspace.hpp"
#include "kernels/cuda/moe/choice_segments.cuh"
#include "kernels/cuda/moe/demand.hpp"
#include "kernels/moe.hpp"

namespace trireme::kernels::cuda {
namespace {

__global__ void count_kernel(const std::int32_t* choice_N, std::int64_t N, std::int64_t E,
                             std::int64_t U, std::int32_t* counts_EU) {
  const std::int64_t u = segment_of_warp();
  std::int32_t* const count = dynamic_shared<std::int32_t>() + warp_of_thread() * E;
  if (u >= U) return;
  clear_counts(E, count);
  const Segment segment = choices_of_segment(u, N);
  walk_choices(choice_N + segment.begin, segment.count, E, count,
               [](std::int64_t, std::int32_t, std::int32_t) {});
  for (std::int64_t e = lane_of_thread(); e < E; e += warp_size)
    counts_EU[e * U + u] = count[e];
}

}  // namespace

std::int64_t count_choices_workspace(std::int64_t choices, std::int64_t experts) {
  return choices == 0 ? 0
                      : experts * segments_of(choices) *
                            static_cast<std::int64_t>(sizeof(std::int32_t));
}

TensorView count_segments(Stream& stream, const std::int32_t* choice_N, std::int64_t N,
                          std::int64_t E) {
  const std::int64_t U = segments_of(N);
  const TensorView counts_EU = workspace(stream, DType::i32, {E, U});
  launch(stream, segment_grid(U, E), count_kernel, choice_N, N, E, U,
         counts_EU.data<std::int32_t>());
  return counts_EU;
}

}  // namespace trireme::kernels::cuda
