// Matrix products by oneDNN primitives that are made once for each shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/dtype.hpp"

namespace trireme::kernels {

// How the right operand [K, N] lies in memory.
enum class RightLayout : std::uint8_t { plain, transposed, panels };  // panels: pack.hpp

// C [M, N] = A [M, K] B [K, N] (+ bias [N]) (+ C), all row-major.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // b_stride: unused for panels
  DType operands = DType::f32;                            // of A, B and the bias
  DType result = DType::f32;
  RightLayout right = RightLayout::plain;
  bool transposed_left = false;  // A is stored as [K, M]
  bool accumulate = false, bias = false;

  bool operator==(const Product&) const = default;
};

// True if oneDNN has its blocked kernel for this product (not a fallback, which may be
// slower by orders of magnitude).
bool is_fast(const Product& product);

// Runs it. Throws Error(transport) when oneDNN refuses.
void multiply(const Product& product, const void* a, const void* b, void* c,
              const void* bias);

// True if the processor multiplies bf16 itself.
bool has_native_bf16();

}  // namespace trireme::kernels
