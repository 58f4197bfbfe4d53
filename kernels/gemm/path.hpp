// Which kernel of a host makes a product: docs/decisions/gemm.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/gemm/product.hpp"

namespace trireme::kernels {

enum class ProductPath : std::uint8_t {
  blas,       // f64
  few_rows,   // 1 to 4 rows of f32 or bf16 by a B stored as [N, K]
  amx,        // bf16 by the processor's tiles, on packed operands
  bf16,       // the processor's own products of bf16, on packed operands
  primitive,  // oneDNN's
  sgemm,      // oneDNN's sgemm, f32
  converted,  // bf16 and f16, through f32
  by_rows     // each row alike whatever the others are: with independent_rows()
};
inline constexpr int product_paths = 8;
std::string_view name_of(ProductPath path);

// By rule, never by timing: the same product gets the same bits in every run (under the
// same independent_rows()).
ProductPath choose_path(const Product& product);
// Why a product is not made by the fastest path that its extents could have; empty where
// it is.
std::string_view why_slow(const Product& product);
// All paths that can make it on this processor, the chosen one first.
std::vector<ProductPath> paths_of(const Product& product);

// gemm() on a host by that path, with M, N and K above 0.
void multiply_by(ProductPath path, const TensorView& c, const TensorView& a,
                 Transpose transpose_a, const TensorView& b, Transpose transpose_b,
                 Accumulate accumulate, const TensorView& bias);

}  // namespace trireme::kernels
