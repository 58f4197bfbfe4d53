// Products of attention's blocks by the processor's products of bf16 (AVX512_BF16).
// SPDX-License-Identifier: Apache-2.0
// A *word* holds two bf16 numbers that follow each other along the sum. Memory of words
// is given as memory of f32, of which it is a part. Only where has_bf16_products().
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/host/simd.hpp"

namespace trireme::kernels::pairs {

// Word p of line m of the left operand of a product is data[m * line + p * word].
struct Left {
  const float* data;
  std::int64_t line, word;
};

// c[m][n] = factor * (sum over p of the products of two numbers, words (m, p) and
// b[p][n]) + the previous contents as simd::multiply() has them. columns is a multiple of
// 16. Sums are made in f32, in the order of p; subnormal numbers count as 0.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t words, Left a,
              simd::Matrix<const float> b, simd::Matrix<float> c, float factor,
              simd::Previous<float> previous);

// Rows of bf16, `stride` apart, as they are needed for sums along their width: rows of
// padded_width / 2 words. What does not exist is 0.
void pack_rows(const BFloat16* from, std::int64_t stride, std::int64_t rows,
               std::int64_t width, std::int64_t padded_width, float* to);
// For sums along the rows: of two rows each, a row of padded_width words.
void pack_row_pairs(const BFloat16* from, std::int64_t stride, std::int64_t rows,
                    std::int64_t width, std::int64_t padded_width, float* to);
// Transposed, for sums along their width: padded_width / 2 rows, `to_stride` apart, of a
// word for each row of `from` up to padded_rows, a multiple of 16.
void pack_columns(const BFloat16* from, std::int64_t stride, std::int64_t rows,
                  std::int64_t padded_rows, std::int64_t width, std::int64_t padded_width,
                  float* to, std::int64_t to_stride);

// Rows of f32, rounded: columns [begin, end), multiples of 16, of row r become words
// [begin / 2, end / 2) of the row of `to`, which may be the same memory.
void round_rows(simd::Matrix<const float> from, std::int64_t rows, std::int64_t begin,
                std::int64_t end, simd::Matrix<float> to);
// Two rows each become a row of words, which may take the place of an earlier row or of
// the first of the two. A second one that does not exist is 0.
void round_row_pairs(simd::Matrix<const float> from, std::int64_t rows,
                     std::int64_t begin, std::int64_t end, simd::Matrix<float> to);

}  // namespace trireme::kernels::pairs
