// Products with weights that are kept as codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/weight_codes.hpp"

namespace trireme::kernels {

// C [M, N] = A [M, K] W^T [K, N] (+ bias [N] on every row), where W [N, K] is what the
// codes stand for, rounded to the type of A. On hosts it is to the bit what gemm() makes
// of those numbers; on a GPU sums of few rows are added in another order than a
// library's.
//
// a, c, bias  as gemm() takes them; a in the type of w.numbers
// w           its numbers may be overwritten
// first       W are the rows of w from this one on; each box lies within them or outside
//
// Cost: where gemm() on a host would read W once or row by row (ProductPath few_rows,
// by_rows), and on a GPU up to 4 rows of A that are not f64, the codes are read once, and
// numbers are made in registers or in a cache. Else all numbers are made first, as on a
// GPU where scales change within what a thread reads at once (cuda/codes/few_rows.hpp).
// Counted on meta.
void gemm_codes(Stream& stream, const TensorView& c, const TensorView& a,
                const WeightCodes& w, const TensorView& bias, std::int64_t first = 0);

}  // namespace trireme::kernels
