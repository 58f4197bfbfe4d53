// Products of f32, bf16 and f16 through f32 kernels on packed operands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm.hpp"

namespace trireme::kernels {

// As gemm() for f32, bf16 and f16, with M, N and K above 0. Operands are packed (and
// converted) a block at a time into working memory.
void gemm_blocked(const TensorView& c, const TensorView& a, Transpose transpose_a,
                  const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                  const TensorView& bias);

}  // namespace trireme::kernels
