// Products of a few rows with a matrix of codes on a GPU, which reads them once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/coded_matrix.hpp"
#include "base/device.hpp"

namespace trireme::kernels::cuda {

// Rows of A of one product, at most.
inline constexpr std::int64_t most_code_rows = 4;

// Codes that a thread reads at once, in 16 bytes.
constexpr std::int64_t codes_at_once(CodeType type) {
  return type == CodeType::four_bits ? 32 : 16;
}

// Whether each run of `count` columns from a multiple of `count` on, in every row, has
// one scale: the last one of a row may be shorter.
inline bool has_scales_of(const CodedMatrix& matrix, std::int64_t count) {
  const ScaleLayout& layout = matrix.layout;
  if (!layout.runs && layout.first_column + matrix.shape[1] <= layout.columns)
    return true;
  return layout.columns % count == 0 && layout.first_column % count == 0 &&
         (!layout.runs || layout.whole_columns % count == 0);
}

// Whether gemm_code_rows() can read the codes: elsewhere they are decoded first.
inline bool reads_code_rows(const CodedMatrix& matrix) {
  return has_scales_of(matrix, codes_at_once(matrix.type));
}

// C [M, N] = A [M, K] B^T (+ bias [N] on every row): each sum in f32, in an order that
// depends on K and the type of codes alone, and rounded once. An element of B is the
// number that decode_matrix() makes of it in the type of A.
//
// a     f32, bf16 or f16, M up to most_code_rows, K above 0; rows may be strided
// c     f32 or the type of a; rows may be strided; written
// bias  none, or [N] in the type of a
// b_NK  reads_code_rows() holds
void gemm_code_rows(Stream& stream, const TensorView& c, const TensorView& a,
                    const CodedMatrix& b_NK, const TensorView& bias);

}  // namespace trireme::kernels::cuda
