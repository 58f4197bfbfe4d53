// The order of rows that arrive at their experts, on the host.
// SPDX-License-Identifier: Apache-2.0
// Legend: P source ranks, L experts of this rank, M = L + 1, R rows.
#include "kernels/arrivals.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/host/rows.hpp"
#include "kernels/math/arrivals.hpp"

namespace trireme::kernels::host {

void place_arrivals(Stream& /*stream*/, const TensorView& rows_PL, std::int64_t bound,
                    std::int64_t block, const TensorView& places_PM) {
  const auto rows = rows_PL.span<std::int32_t>(), places = places_PM.span<std::int32_t>();
  const auto P = static_cast<std::size_t>(rows_PL.dim(0));
  const auto L = static_cast<std::size_t>(rows_PL.dim(1)), M = L + 1;
  std::int32_t end = 0;
  for (std::size_t l = 0; l < L; ++l)
    for (std::size_t p = 0; p < P; ++p) {
      const std::int32_t count = rows[p * L + l];
      places[p * M + l] = math::first_place(end, count, static_cast<std::int32_t>(bound),
                                            static_cast<std::int32_t>(block));
      end = places[p * M + l] + count;
    }
  for (std::size_t p = 0; p < P; ++p) places[p * M + L] = end;
}

void order_arrivals(Stream& /*stream*/, const TensorView& rows_PL,
                    const TensorView& places_PM, Range window,
                    const TensorView& order_R) {
  const auto rows = rows_PL.span<std::int32_t>(), order = order_R.span<std::int32_t>();
  const auto P = static_cast<std::size_t>(rows_PL.dim(0));
  const auto L = static_cast<std::size_t>(rows_PL.dim(1));
  const std::int32_t* const places =
      places_PM.empty() ? nullptr : places_PM.data<std::int32_t>();
  const auto arriving = [&](std::size_t p, std::size_t l) {
    const std::int32_t count = rows[p * L + l];
    if (places == nullptr) return count;
    return static_cast<std::int32_t>(
        math::rows_in_window(places[p * (L + 1) + l], count, window).count());
  };
  static thread_local Scratch scratch("first row of each rank and expert");
  auto* const first = scratch.take<std::int32_t>(rows_PL.elements());
  std::int32_t arrived = 0;
  for (std::size_t p = 0; p < P; ++p)
    for (std::size_t l = 0; l < L; ++l) {
      first[p * L + l] = arrived;
      arrived += arriving(p, l);
    }
  require(arrived == order_R.dim(0), "{} rows arrive, {} were to be ordered", arrived,
          order_R.dim(0));
  auto next = order.begin();
  for (std::size_t l = 0; l < L; ++l)
    for (std::size_t p = 0; p < P; ++p) {
      const auto end = next + arriving(p, l);
      std::iota(next, end, first[p * L + l]);
      next = end;
    }
}

}  // namespace trireme::kernels::host
