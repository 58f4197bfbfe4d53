// Products with weights that are kept as codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/weight_codes.hpp"

namespace trireme::kernels {

// C [M, N] = A [M, K] W^T [K, N] (+ bias [N] on every row), where W [N, K] is what the
// codes stand for, rounded to the type of A: to the bit what gemm() makes of those
// numbers.
//
// a, c, bias  as gemm() takes them; a in the type of w.numbers
// w           its numbers may be overwritten
// first       W are the rows of w from this one on; each box lies within them or outside
//
// Cost: where gemm() would read W once or row by row (ProductPath few_rows, by_rows), the
// codes are read once, and numbers are made in registers or in a cache. Else all
// numbers are made first.
// On hosts, and counted on meta; throws Error(internal) on a GPU.
void gemm_codes(Stream& stream, const TensorView& c, const TensorView& a,
                const WeightCodes& w, const TensorView& bias, std::int64_t first = 0);

}  // namespace trireme::kernels
