// Double precision products by BLAS.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm.hpp"

namespace trireme::kernels {

// As gemm() for f64, with M, N and K above 0.
void gemm_f64(const TensorView& c, const TensorView& a, Transpose transpose_a,
              const TensorView& b, Transpose transpose_b, Accumulate accumulate,
              const TensorView& bias);

}  // namespace trireme::kernels
