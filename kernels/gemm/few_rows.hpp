// Products of a few rows with a matrix that is read once, as generation makes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm.hpp"

namespace trireme::kernels {

constexpr std::int64_t most_few_rows = 4;

// C [M, N] = A [M, K] B^T (+ bias) (+ C) as gemm(), for f32 and bf16, M of 1 to
// most_few_rows, N and K above 0, B stored as [N, K]. B is read where it lies, once,
// which is what takes the time. Sums are f32, in an order that depends on K and on
// whether M is 1 (bf16, where the processor multiplies pairs of it).
void gemm_few_rows(const TensorView& c, const TensorView& a, const TensorView& b_NK,
                   Accumulate accumulate, const TensorView& bias);

}  // namespace trireme::kernels
