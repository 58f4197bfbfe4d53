// Attention's products by TDPBF16PS, and the packing of operands that are turned for it.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/attention_tiles.hpp"

#include <algorithm>

#include "kernels/gemm/amx_tile.hpp"
#include "kernels/gemm/bf16_target.hpp"

namespace trireme::kernels::tiles {

#if TRIREME_HAS_BF16_TARGET
namespace {

using simd::Matrix, simd::Previous;

constexpr std::int64_t sum_lines = 2 * tile_lines, sum_columns = 32, lanes = 16;

// Sums of two tiles of columns and one or two of rows, to sums[32][32]. Tiles 0 to 3 hold
// sums, 4 and 5 the left operand, 6 and 7 the right one.
template <bool two_rows>
TRIREME_AMX_TARGET inline void add_up(std::int64_t words, const Left& a,
                                      Matrix<const float> b, float* sums) {
  constexpr std::int64_t word = sizeof(float);
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (two_rows) {
    _tile_zero(2);
    _tile_zero(3);
  }
  const float *left = a.data, *right = b.data;
  for (std::int64_t at = 0; at < words; at += tile_words) {
    _tile_loadd(4, left, a.line * word);
    _tile_loadd(6, right, b.stride * word);
    _tile_loadd(7, right + lanes, b.stride * word);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (two_rows) {
      _tile_loadd(5, left + a.down, a.line * word);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    left += a.right;
    right += tile_words * b.stride;
  }
  constexpr std::int64_t line = sum_columns * word;
  _tile_stored(0, sums, line);
  _tile_stored(1, sums + lanes, line);
  if constexpr (two_rows) {
    _tile_stored(2, sums + tile_lines * sum_columns, line);
    _tile_stored(3, sums + tile_lines * sum_columns + lanes, line);
  }
}

// The first `rows` rows of sums[32][32] to their place.
TRIREME_BF16_TARGET inline void put(const float* sums, std::int64_t rows, Matrix<float> c,
                                    float factor, Previous<float> previous) {
  const __m512 factors = _mm512_set1_ps(factor);
  for (std::int64_t at = 0; at < sum_columns; at += lanes) {
    const bool shrinks = previous.factor != nullptr;
    const __m512 shrink =
        shrinks ? _mm512_loadu_ps(previous.factor + at) : _mm512_set1_ps(1);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const to = c.data + r * c.stride + at;
      __m512 sum = _mm512_mul_ps(_mm512_load_ps(sums + r * sum_columns + at), factors);
      if (shrinks || previous.kept)
        sum = _mm512_fmadd_ps(_mm512_loadu_ps(to), shrink, sum);
      _mm512_storeu_ps(to, sum);
    }
  }
}

}  // namespace

void multiply(std::int64_t rows, std::int64_t columns, std::int64_t words, Left a,
              Matrix<const float> b, Matrix<float> c, float factor,
              Previous<float> previous) {
  alignas(64) float sums[sum_lines * sum_columns];
  for (std::int64_t row = 0; row < rows; row += sum_lines) {
    const std::int64_t lines = std::min(sum_lines, rows - row);
    for (std::int64_t at = 0; at < columns; at += sum_columns) {
      const Matrix<const float> right{b.data + at, b.stride};
      lines > tile_lines ? add_up<true>(words, a, right, sums)
                         : add_up<false>(words, a, right, sums);
      put(sums, lines, {c.data + row * c.stride + at, c.stride}, factor,
          {previous.kept, previous.factor != nullptr ? previous.factor + at : nullptr});
    }
    a.data += 2 * a.down;
  }
}

void pack_turned(const BFloat16* from, std::int64_t stride, std::int64_t rows,
                 std::int64_t width, float* to, std::int64_t down) {
  const auto* const numbers = reinterpret_cast<const std::uint16_t*>(from);
  auto* words = reinterpret_cast<std::uint32_t*>(to);
  for (std::int64_t c = 0; c < width; c += tile_lines, words += down)
    pack_tiles({numbers + c, stride, false, tile_lines, rows},
               {words, nullptr, panel_group});
}

#else
void multiply(std::int64_t, std::int64_t, std::int64_t, Left, simd::Matrix<const float>,
              simd::Matrix<float>, float, simd::Previous<float>) {}
void pack_turned(const BFloat16*, std::int64_t, std::int64_t, std::int64_t, float*,
                 std::int64_t) {}
#endif

}  // namespace trireme::kernels::tiles
