// Checks of matrix products.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/extents.hpp"

namespace trireme::kernels {

GemmExtents check_gemm(const TensorView& c, const TensorView& a, Transpose transpose_a,
                       const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                       const TensorView& bias) {
  require(c.shape().rank() == 2 && a.shape().rank() == 2 && b.shape().rank() == 2,
          "gemm takes matrices, not {} = {} x {}", c.shape(), a.shape(), b.shape());
  const bool swap_a = transpose_a == Transpose::yes,
             swap_b = transpose_b == Transpose::yes;
  const GemmExtents extents{c.dim(0), c.dim(1), a.dim(swap_a ? 0 : 1)};
  require(a.dim(swap_a ? 1 : 0) == extents.m && b.dim(swap_b ? 0 : 1) == extents.n &&
              b.dim(swap_b ? 1 : 0) == extents.k,
          "gemm: {} = {}{} x {}{} does not fit", c.shape(), a.shape(), swap_a ? "^T" : "",
          b.shape(), swap_b ? "^T" : "");
  const DType type = a.dtype();
  require(b.dtype() == type && (c.dtype() == type || c.dtype() == accumulator_of(type)),
          "gemm: {} = {} x {} is not provided", name_of(c.dtype()), name_of(type),
          name_of(b.dtype()));
  if (!bias.empty()) {
    require(accumulate == Accumulate::no, "gemm: a bias cannot be added to a sum");
    require(bias.shape().rank() == 1 && bias.dim(0) == extents.n && bias.dtype() == type,
            "gemm: bias {} of {} for {} of {}", bias.shape(), name_of(bias.dtype()),
            c.shape(), name_of(type));
  }
  return extents;
}

}  // namespace trireme::kernels
