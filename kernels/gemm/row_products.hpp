// Products of which each row has the same bits whatever the other rows are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/coded_matrix.hpp"
#include "kernels/gemm.hpp"

namespace trireme::kernels {

// C [M, N] = A [M, K] B (+ bias) (+ C) as gemm(), for all floating types, M, N and K
// above 0; B stored as [N, K], or as [K, N], which is transposed first. An element is the
// dot product of its row and its column, summed in f32 (f64 for f64) in an order that
// depends on K alone: batches of any composition give each row the same bits.
// (_m512_dpbf16_ps, where the program is compiled for it, sums pairs of bf16 and takes
// subnormal numbers for 0: bits differ between kinds of processors, as everywhere.)
void gemm_by_rows(const TensorView& c, const TensorView& a, const TensorView& b,
                  Transpose transpose_b, Accumulate accumulate, const TensorView& bias);

// C [M, N] = A [M, K] B^T (+ bias) to the bit as above with the numbers that the codes
// stand for, rounded to the type of A. Numbers of some rows at a time lie in a cache.
void gemm_by_rows(const TensorView& c, const TensorView& a, const CodedMatrix& b_NK,
                  const TensorView& bias);

}  // namespace trireme::kernels
