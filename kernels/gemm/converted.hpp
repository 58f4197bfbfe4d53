// Products of bf16 and f16 through f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm.hpp"

namespace trireme::kernels {

// As gemm() for bf16 and f16, with M, N and K above 0. Operands are converted a block at
// a time into working memory and multiplied in f32, where products of either are exact.
void gemm_converted(const TensorView& c, const TensorView& a, Transpose transpose_a,
                    const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                    const TensorView& bias);

}  // namespace trireme::kernels
