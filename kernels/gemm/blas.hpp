// Products by BLAS: all of f64, and those of f32 that it does best.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm.hpp"

namespace trireme::kernels {

// As gemm() for f64 and f32, with M, N and K above 0.
void gemm_blas(const TensorView& c, const TensorView& a, Transpose transpose_a,
               const TensorView& b, Transpose transpose_b, Accumulate accumulate,
               const TensorView& bias);

// True if the BLAS is known to be tuned for f32 and to share the pool of OpenMP threads.
bool blas_is_tuned();

}  // namespace trireme::kernels
