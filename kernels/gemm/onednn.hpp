// Matrix products by oneDNN primitives that are made once for each shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/dtype.hpp"

namespace trireme::kernels {

// C [M, N] = A [M, K] B [K, N] (+ bias [N]) (+ C), all row-major.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  DType operands = DType::f32;  // of A, B and the bias
  DType result = DType::f32;
  bool transposed_left = false, transposed_right = false;  // stored as [K, M], [N, K]
  bool accumulate = false, bias = false;

  bool operator==(const Product&) const = default;
};

// True if oneDNN has its blocked kernel ("brgemm") for this product.
bool is_fast(const Product& product);

// Runs it as a primitive. Throws Error(transport) when oneDNN refuses.
void multiply(const Product& product, const void* a, const void* b, void* c,
              const void* bias);

// Runs it, for f32 without bias, by oneDNN's sgemm, which packs operands as it goes and
// takes any strides and transposes at the same speed.
void multiply_f32(const Product& product, const float* a, const float* b, float* c);

// True if the processor multiplies bf16 itself.
bool has_native_bf16();

}  // namespace trireme::kernels
