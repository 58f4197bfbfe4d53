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
// Cost: reads the codes and writes y once. On hosts, and nothing on meta; throws
// Error(internal) on a GPU.
void decode_matrix(Stream& stream, const CodedMatrix& matrix, const TensorView& y_NK);

}  // namespace trireme::kernels
