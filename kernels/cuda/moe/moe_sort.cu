// The stable counting sort of choices by expert on a GPU, in three kernels.
// SPDX-License-Identifier: Apache-2.0
// They make the counts of each segment, their sums over the segments before, and the
// places. N choices, K of a token, E experts, U segments.
#include <cuda_machine/shared.cuh>

#include "kernels/cuda/moe/choice_segments.cuh"
#include "kernels/cuda/moe/demand.hpp"
#include "kernels/moe.hpp"

namespace trireme::kernels::cuda {
namespace {

// Warp e: counts_EU[e, u] becomes the sum over the segments before u, rows_E[e] that over
// all.
__global__ void sum_segments_kernel(std::int64_t E, std::int64_t U,
                                    std::int32_t* counts_EU, std::int32_t* rows_E) {
  const std::int64_t e =
      std::int64_t{blockIdx.x} * (blockDim.x / warp_size) + warp_of_thread();
  if (e >= E) return;
  std::int32_t* const counts = counts_EU + e * U;
  std::int32_t before = 0;
  for (std::int64_t begin = 0; begin < U; begin += warp_size) {
    const std::int64_t u = begin + lane_of_thread();
    const std::int32_t count = u < U ? counts[u] : 0;
    const std::int32_t in_warp = warp_sum_before(count);  // by all lanes
    if (u < U) counts[u] = before + in_warp;
    before += warp_sum(count);
  }
  if (lane_of_thread() == 0) rows_E[e] = before;
}

// next[e] = rows of the experts before e + rows of e in the segments before u.
__device__ inline void first_places(const std::int32_t* before_EU,
                                    const std::int32_t* rows_E, std::int64_t E,
                                    std::int64_t U, std::int64_t u, std::int32_t* next) {
  std::int32_t start = 0;
  for (std::int64_t begin = 0; begin < E; begin += warp_size) {
    const std::int64_t e = begin + lane_of_thread();
    const std::int32_t rows = e < E ? rows_E[e] : 0;
    const std::int32_t first = start + warp_sum_before(rows);
    if (e < E) next[e] = first + before_EU[e * U + u];
    start += warp_sum(rows);
  }
  __syncwarp();
}

__global__ void place_kernel(const std::int32_t* choice_N, std::int64_t N, std::int64_t K,
                             std::int64_t E, std::int64_t U,
                             const std::int32_t* before_EU, const std::int32_t* rows_E,
                             std::int32_t* row_N, std::int32_t* token_N) {
  const std::int64_t u = segment_of_warp();
  std::int32_t* const next = dynamic_shared<std::int32_t>() + warp_of_thread() * E;
  if (u >= U) return;
  first_places(before_EU, rows_E, E, U, u, next);
  const Segment segment = choices_of_segment(u, N);
  walk_choices(choice_N + segment.begin, segment.count, E, next,
               [&](std::int64_t i, std::int32_t, std::int32_t place) {
                 row_N[segment.begin + i] = place;
                 if (place >= 0)
                   token_N[place] = static_cast<std::int32_t>((segment.begin + i) / K);
               });
}

}  // namespace

void sort_by_expert(Stream& stream, const TensorView& choice_TK, const TensorView& rows_E,
                    const TensorView& row_TK, const TensorView& token_N) {
  const std::int64_t N = choice_TK.elements(), E = rows_E.dim(0);
  if (E == 0) return;
  const std::int64_t U = segments_of(N);
  const auto* const choice = choice_TK.data<std::int32_t>();
  auto* const rows = rows_E.data<std::int32_t>();
  auto* const counts =
      U > 0 ? count_segments(stream, choice, N, E).data<std::int32_t>() : nullptr;
  constexpr unsigned warps = 4;
  launch(stream, {dim3(extent((E + warps - 1) / warps)), dim3(warps * warp_size)},
         sum_segments_kernel, E, U, counts, rows);
  if (U > 0)
    launch(stream, segment_grid(U, E), place_kernel, choice, N, choice_TK.dim(1), E, U,
           counts, rows, row_TK.data<std::int32_t>(), token_N.data<std::int32_t>());
}

}  // namespace trireme::kernels::cuda
