// Products of attention's blocks by AMX: tiles of 16 x 16 sums, two by two.
// SPDX-License-Identifier: Apache-2.0
// Words and memory are those of host/attention_pairs.hpp. Only where has_amx(), between
// configure_amx_tiles() and release_amx_tiles().
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/host/simd.hpp"

namespace trireme::kernels::tiles {

inline constexpr std::int64_t tile_lines = 16;  // of an operand
inline constexpr std::int64_t tile_words = 16;  // of a line
inline constexpr std::int64_t tile_numbers = 2 * tile_words;

// Tile (i, j) of the left operand of a product, 16 lines of 16 words, begins at
// data + i * down + j * right; its lines are `line` words apart.
struct Left {
  const float* data;
  std::int64_t line, down, right;
};

// Lines of words that follow each other, `stride` apart.
inline Left lines_of(const float* data, std::int64_t stride) {
  return {data, stride, tile_lines * stride, tile_words};
}

// As pairs::multiply(). columns is a multiple of 32 and words of 16; rows up to the next
// multiple of 16 are read, but no sums of them written.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t words, Left a,
              simd::Matrix<const float> b, simd::Matrix<float> c, float factor,
              simd::Previous<float> previous);

// Rows of bf16, `stride` apart, turned for sums along the rows: tiles of 16 columns by 32
// rows, those of 16 columns `down` words apart. width is a multiple of 16. Rows that do
// not exist are 0.
void pack_turned(const BFloat16* from, std::int64_t stride, std::int64_t rows,
                 std::int64_t width, float* to, std::int64_t down);

}  // namespace trireme::kernels::tiles
