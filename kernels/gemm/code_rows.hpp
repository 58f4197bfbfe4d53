// Products of a few rows with a matrix of codes, which are read once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/coded_matrix.hpp"
#include "kernels/gemm.hpp"

namespace trireme::kernels {

// C [M, N] = A [M, K] B^T (+ bias) to the bit as gemm_few_rows() with the numbers that
// the codes stand for, rounded to the type of A, for the same extents and types.
void gemm_few_rows(const TensorView& c, const TensorView& a, const CodedMatrix& b_NK,
                   const TensorView& bias);

}  // namespace trireme::kernels
