// What every matrix product asks of its arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm.hpp"

namespace trireme::kernels {

struct GemmExtents {
  std::int64_t m, n, k;
};

// The extents of gemm(c, a, ..., bias). Throws Error(internal) when shapes or types do
// not fit.
GemmExtents check_gemm(const TensorView& c, const TensorView& a, Transpose transpose_a,
                       const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                       const TensorView& bias);

}  // namespace trireme::kernels
