// RMSNorm of rows of which several ranks hold a part each, in steps between their sums.
// SPDX-License-Identifier: Apache-2.0
// T rows, E columns on this rank, D columns in all; x, y, dy, dx in the compute dtype,
// gain_E too; sums, statistics and terms in the accumulator dtype. Rows of x, y, dy and
// dx may be strided. Source of the formulas: Zhang and Sennrich, 2019, eq. 4.
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// sums_T (written) = sum over the columns of a b gain; gain_E may be empty: ones. Forward
// wants it of x and x, backward of dy, x and the gain; the sums over ranks are the
// caller's.
void row_products(Stream& stream, const TensorView& a_TE, const TensorView& b_TE,
                  const TensorView& gain_E, const TensorView& sums_T);

// rstd_T (written) = 1 / sqrt(squares / width + eps), y_TE (written, may be x) = x rstd
// gain. squares_T: of whole rows, whose width is D.
void split_rms_norm(Stream& stream, const TensorView& x_TE, const TensorView& gain_E,
                    const TensorView& squares_T, std::int64_t width, double eps,
                    const TensorView& y_TE, const TensorView& rstd_T);

// With n = x rstd: dx_TE (written, may be dy) = rstd (dy gain - n rstd products / D), and
// terms_TE (written) = dy n, whose sum over rows is the gradient of the gain. products_T:
// of whole rows, or empty where another rank's columns repeat these: without that part.
void split_rms_norm_backward(Stream& stream, const TensorView& dy_TE,
                             const TensorView& x_TE, const TensorView& gain_E,
                             const TensorView& rstd_T, const TensorView& products_T,
                             std::int64_t width, const TensorView& dx_TE,
                             const TensorView& terms_TE);

}  // namespace trireme::kernels
