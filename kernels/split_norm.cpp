// RMSNorm of rows in parts: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/split_norm.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(row_products);
TRIREME_BACK_ENDS(split_rms_norm);
TRIREME_BACK_ENDS(split_rms_norm_backward);

namespace {

ProfileFamily family("norm");

// What the three have in common: x, the gain and statistics of its rows.
void check_rows(const Checks& check, const TensorView& x_TE, const TensorView& gain_E,
                const TensorView& statistics_T) {
  check.matrix({"x", x_TE});
  if (!gain_E.empty()) {
    check.tensor({"gain", gain_E}, x_TE.dtype(), {x_TE.dim(1)});
    check.dense({"gain", gain_E});
  }
  check.tensor({"statistics", statistics_T}, accumulator_of(x_TE.dtype()), {x_TE.dim(0)});
  check.dense({"statistics", statistics_T});
}

}  // namespace

void row_products(Stream& stream, const TensorView& a_TE, const TensorView& b_TE,
                  const TensorView& gain_E, const TensorView& sums_T) {
  const Checks check("row_products", stream);
  check_rows(check, a_TE, gain_E, sums_T);
  check.tensor({"b", b_TE}, a_TE.dtype(), a_TE.shape());
  run_kernel<host::row_products, cuda::row_products>(family, stream, a_TE, b_TE, gain_E,
                                                     sums_T);
}

void split_rms_norm(Stream& stream, const TensorView& x_TE, const TensorView& gain_E,
                    const TensorView& squares_T, std::int64_t width, double eps,
                    const TensorView& y_TE, const TensorView& rstd_T) {
  const Checks check("split_rms_norm", stream);
  check_rows(check, x_TE, gain_E, squares_T);
  check.tensor({"gain", gain_E}, x_TE.dtype(), {x_TE.dim(1)});
  check.tensor({"y", y_TE}, x_TE.dtype(), x_TE.shape());
  check.tensor({"rstd", rstd_T}, squares_T.dtype(), squares_T.shape());
  require(width >= x_TE.dim(1), "split_rms_norm: {} columns of rows of width {}",
          x_TE.dim(1), width);
  run_kernel<host::split_rms_norm, cuda::split_rms_norm>(
      family, stream, x_TE, gain_E, squares_T, width, eps, y_TE, rstd_T);
}

void split_rms_norm_backward(Stream& stream, const TensorView& dy_TE,
                             const TensorView& x_TE, const TensorView& gain_E,
                             const TensorView& rstd_T, const TensorView& products_T,
                             std::int64_t width, const TensorView& dx_TE,
                             const TensorView& terms_TE) {
  const Checks check("split_rms_norm_backward", stream);
  check_rows(check, x_TE, gain_E, rstd_T);
  check.tensor({"gain", gain_E}, x_TE.dtype(), {x_TE.dim(1)});
  for (const Argument& each : {Argument{"dy", dy_TE}, Argument{"dx", dx_TE}})
    check.tensor(each, x_TE.dtype(), x_TE.shape());
  check.tensor({"terms", terms_TE}, rstd_T.dtype(), x_TE.shape());
  if (!products_T.empty())
    check.tensor({"products", products_T}, rstd_T.dtype(), rstd_T.shape());
  run_kernel<host::split_rms_norm_backward, cuda::split_rms_norm_backward>(
      family, stream, dy_TE, x_TE, gain_E, rstd_T, products_T, width, dx_TE, terms_TE);
}

}  // namespace trireme::kernels
