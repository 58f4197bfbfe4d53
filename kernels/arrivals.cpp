// The order of rows that arrive: checks, then the device's code.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/arrivals.hpp"

#include <limits>

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(place_arrivals);
TRIREME_BACK_ENDS(order_arrivals);

namespace {

ProfileFamily family("expert rows");

void check_counts(const Checks& check, const TensorView& rows_PL) {
  require(rows_PL.shape().rank() == 2, "rows {} are not those of ranks and experts",
          rows_PL.shape());
  check.tensor({"rows", rows_PL}, DType::i32, rows_PL.shape());
  check.dense({"rows", rows_PL});
}

void check_places(const Checks& check, const TensorView& rows_PL,
                  const TensorView& places_PM) {
  check.tensor({"places", places_PM}, DType::i32, {rows_PL.dim(0), rows_PL.dim(1) + 1});
  check.dense({"places", places_PM});
}

}  // namespace

void place_arrivals(Stream& stream, const TensorView& rows_PL, std::int64_t bound,
                    std::int64_t block, const TensorView& places_PM) {
  const Checks check("place_arrivals", stream);
  check_counts(check, rows_PL);
  check_places(check, rows_PL, places_PM);
  require(
      block > 0 && bound >= block && bound <= std::numeric_limits<std::int32_t>::max(),
      "rounds of {} rows in blocks of {}", bound, block);
  run_kernel<host::place_arrivals, cuda::place_arrivals>(family, stream, rows_PL, bound,
                                                         block, places_PM);
}

void order_arrivals(Stream& stream, const TensorView& rows_PL,
                    const TensorView& places_PM, Range window,
                    const TensorView& order_R) {
  const Checks check("order_arrivals", stream);
  check_counts(check, rows_PL);
  if (!places_PM.empty()) check_places(check, rows_PL, places_PM);
  check.tensor({"order", order_R}, DType::i32, {order_R.elements()});
  run_kernel<host::order_arrivals, cuda::order_arrivals>(family, stream, rows_PL,
                                                         places_PM, window, order_R);
}

}  // namespace trireme::kernels
