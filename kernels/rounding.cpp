// Roundings: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rounding.hpp"

#include <cmath>

#include "base/stochastic_rounding.hpp"
#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(round_stochastic);
TRIREME_BACK_ENDS(count_rounding_losses);
TRIREME_BACK_ENDS(square);
TRIREME_BACK_ENDS(square_root);

namespace {

ProfileFamily family("rounding");

void check_numbers(const char* name, const Stream& stream, const TensorView& x) {
  const Checks check(name, stream);
  check.tensor({"x", x}, DType::f32, x.shape());
  check.dense({"x", x});
}

}  // namespace

void round_stochastic(Stream& stream, const TensorView& x_N, const TensorRun& run,
                      DType type, float scale, const RoundingKey& key) {
  check_numbers("round_stochastic", stream, x_N);
  require(size_of(type) <= 2, "round_stochastic: {} is not narrower than f32",
          name_of(type));
  run_kernel<host::round_stochastic, cuda::round_stochastic>(family, stream, x_N, run,
                                                             type, scale, key);
}

// Half a spacing beyond the largest number, and half of the least, which ties to zero.
RoundingLimits rounding_limits(DType type, float scale) {
  const LowPrecisionFormat format = low_precision_format(type);
  const int spacing = std::ilogb(format.largest) - format.mantissa_bits;
  const float beyond = format.largest + std::ldexp(0.5f, spacing);
  const float least = std::ldexp(0.5f, format.least_exponent - format.mantissa_bits);
  return {beyond * scale, least * scale};
}

void count_rounding_losses(Stream& stream, const TensorView& x_N,
                           const RoundingLimits& limits, const TensorRun& run,
                           const TensorView& scales_S, const TensorView& counts_2) {
  check_numbers("count_rounding_losses", stream, x_N);
  const Checks check("count_rounding_losses", stream);
  check.tensor({"counts", counts_2}, DType::f64, {2});
  const std::int64_t n = x_N.elements();
  if (!scales_S.empty()) {
    check.tensor({"scales", scales_S}, DType::f32, {scales_S.elements()});
    require(n == 0 || run.block(n - 1) < scales_S.elements(),
            "count_rounding_losses: {} scales are fewer than the squares of the run",
            scales_S.elements());
  }
  if (n == 0) return;
  run_kernel<host::count_rounding_losses, cuda::count_rounding_losses>(
      family, stream, x_N, limits, run, scales_S, counts_2);
}

void square(Stream& stream, const TensorView& x) {
  check_numbers("square", stream, x);
  run_kernel<host::square, cuda::square>(family, stream, x);
}

void square_root(Stream& stream, const TensorView& x, float least) {
  check_numbers("square_root", stream, x);
  run_kernel<host::square_root, cuda::square_root>(family, stream, x, least);
}

}  // namespace trireme::kernels
