// The order of rows that arrive at their experts, on a GPU.
// SPDX-License-Identifier: Apache-2.0
// Legend: P source ranks, L experts of this rank, M = L + 1, R rows.
#include "kernels/arrivals.hpp"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/moe/choices.cuh"
#include "kernels/math/arrivals.hpp"

namespace trireme::kernels::cuda {
namespace {

// One warp. Each place depends on the one before, so that lanes fetch 32 counts at once,
// and all of them then go through these one by one.
__global__ void place_arrivals_kernel(const std::int32_t* rows_PL, std::int32_t P,
                                      std::int32_t L, std::int32_t bound,
                                      std::int32_t block, std::int32_t* places_PM) {
  const std::int32_t lane = lane_of_thread();
  std::int32_t end = 0;
  for (std::int32_t begin = 0; begin < P * L; begin += warp_size) {
    const std::int32_t i = begin + lane, l = i / P, p = i % P;
    const std::int32_t rows = i < P * L ? rows_PL[p * L + l] : 0;
    std::int32_t place = 0;
    for (int of = 0; of < warp_size; ++of) {
      const std::int32_t count = __shfl_sync(all_lanes, rows, of);
      const std::int32_t first = math::first_place(end, count, bound, block);
      if (of == lane) place = first;
      end = first + count;
    }
    if (i < P * L) places_PM[p * (L + 1) + l] = place;
  }
  for (std::int32_t p = lane; p < P; p += warp_size) places_PM[p * (L + 1) + L] = end;
}

// Rows of rank p for expert l that arrive now.
__device__ inline std::int32_t arriving(const std::int32_t* rows_PL,
                                        const std::int32_t* places_PM, std::int32_t L,
                                        std::int32_t p, std::int32_t l, Range window) {
  const std::int32_t count = rows_PL[p * L + l];
  if (places_PM == nullptr) return count;
  const Range rows = math::rows_in_window(places_PM[p * (L + 1) + l], count, window);
  return static_cast<std::int32_t>(rows.end - rows.begin);
}

// A warp for each rank and expert. It sums what lies before its rows in the order of
// arrival, and in that of experts, and numbers its rows.
__global__ void order_arrivals_kernel(const std::int32_t* rows_PL,
                                      const std::int32_t* places_PM, std::int32_t P,
                                      std::int32_t L, Range window,
                                      std::int32_t* order_R) {
  const std::int32_t lane = lane_of_thread();
  const auto warps = static_cast<std::int32_t>(blockDim.x) / warp_size;
  const std::int32_t own = static_cast<std::int32_t>(blockIdx.x) * warps +
                           static_cast<std::int32_t>(warp_of_thread());
  if (own >= P * L) return;
  const std::int32_t own_p = own / L, own_l = own % L;
  std::int32_t arrived = 0, place = 0;
  for (std::int32_t i = lane; i < P * L; i += warp_size) {
    const std::int32_t p = i / L, l = i % L;
    const std::int32_t count = arriving(rows_PL, places_PM, L, p, l, window);
    if (i < own) arrived += count;
    if (l < own_l || (l == own_l && p < own_p)) place += count;
  }
  arrived = warp_sum(arrived);
  place = warp_sum(place);
  const std::int32_t mine = arriving(rows_PL, places_PM, L, own_p, own_l, window);
  for (std::int32_t r = lane; r < mine; r += warp_size) order_R[place + r] = arrived + r;
}

}  // namespace

void place_arrivals(Stream& stream, const TensorView& rows_PL, std::int64_t bound,
                    std::int64_t block, const TensorView& places_PM) {
  if (rows_PL.dim(0) == 0) return;
  launch(stream, {dim3(1), dim3(warp_size)}, place_arrivals_kernel,
         rows_PL.data<std::int32_t>(), rows_PL.dim(0), rows_PL.dim(1), bound, block,
         places_PM.data<std::int32_t>());
}

void order_arrivals(Stream& stream, const TensorView& rows_PL,
                    const TensorView& places_PM, Range window,
                    const TensorView& order_R) {
  const std::int64_t segments = rows_PL.elements();
  if (segments == 0 || order_R.dim(0) == 0) return;
  constexpr unsigned warps = 4;
  launch(stream, {dim3(extent((segments + warps - 1) / warps)), dim3(warps * warp_size)},
         order_arrivals_kernel, rows_PL.data<std::int32_t>(),
         places_PM.empty() ? nullptr : places_PM.data<std::int32_t>(), rows_PL.dim(0),
         rows_PL.dim(1), window, order_R.data<std::int32_t>());
}

}  // namespace trireme::kernels::cuda
