// Matrices that are kept as codes: their numbers, in the type of a product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/coded_matrix.hpp"
#include "base/device.hpp"

namespace trireme::kernels {

// y_NK = what the codes stand for in f32 (base/coded_matrix.hpp), rounded to y's type.
//
// y_NK  [N, K] as the matrix, floating, written; rows may be strided
//
// Codes lie where y does; every device has the same bits. Cost: reads the codes and
// writes y once. Nothing on meta.
void decode_matrix(Stream& stream, const CodedMatrix& matrix, const TensorView& y_NK);

}  // namespace trireme::kernels
