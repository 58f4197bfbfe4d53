// A matrix product as a host is asked for it: extents, strides, types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

#include "kernels/gemm.hpp"

namespace trireme::kernels {

// C [M, N] = A [M, K] B [K, N] (+ bias [N]) (+ C), all row-major.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  DType operands = DType::f32;  // of A, B and the bias
  DType result = DType::f32;
  bool transposed_left = false, transposed_right = false;  // stored as [K, M], [N, K]
  bool accumulate = false, bias = false;

  auto operator<=>(const Product&) const = default;
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// The product of the operands as they lie.
Product product_of(const TensorView& c, const TensorView& a, Transpose transpose_a,
                   const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                   const TensorView& bias);

}  // namespace trireme::kernels
