// Products of rows by a matrix as it is stored: tiles of C^T = B A^T.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/amx_rows.hpp"

#include <algorithm>
#include <vector>

#include "base/split.hpp"
#include "kernels/gemm/amx_tile.hpp"
#include "kernels/gemm/bf16_panels.hpp"
#include "kernels/gemm/bf16_sums.hpp"
#include "kernels/gemm/bf16_transpose.hpp"
#include "kernels/host/parallel.hpp"

namespace trireme::kernels {
namespace {

constexpr std::int64_t lines = panel_group, tile_depth = 32;
constexpr std::int64_t tile_pairs = tile_depth / 2;

std::int64_t pairs_of(std::int64_t depth) {
  return divide_up(depth, tile_depth) * tile_pairs;
}

}  // namespace

std::size_t AmxRows::bytes(std::int64_t M, std::int64_t K) {
  return static_cast<std::size_t>(divide_up(M, lines) * lines * pairs_of(K)) *
         sizeof(std::uint32_t);
}

AmxRows::AmxRows(const BFloat16* a, std::int64_t stride, std::int64_t M, std::int64_t K,
                 void* to, int threads)
    : rows_(M), depth_(K), packed_(static_cast<std::uint32_t*>(to)) {
  const std::int64_t pairs = pairs_of(K), packed = divide_up(K, std::int64_t{2});
  const auto* const numbers = reinterpret_cast<const std::uint16_t*>(a);
  for_ranges("gemm.pack", divide_up(M, lines),
             std::max<std::int64_t>(1, (1 << 14) / (K * lines)), threads,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t group = begin; group < end; ++group) {
                 std::uint32_t* const at = packed_ + group * lines * pairs;
                 pack_group({numbers + group * lines * stride, stride, true,
                             std::min(lines, M - group * lines), K},
                            {at, at + lines / 2, lines});
                 std::fill_n(at + packed * lines, (pairs - packed) * lines, 0u);
               }
             });
}

#if TRIREME_HAS_BF16_TARGET
namespace {

constexpr std::int64_t block_bytes = 768 << 10;  // of B, which stay in the second cache

// Up to 32 rows of B, from where tiles are loaded.
struct ColumnTiles {
  const std::uint16_t* data;
  std::int64_t stride, count;

  bool two() const { return count > lines; }
};

// What a product reads next, fetched a part with each step of K.
struct Fetch {
  const char* at;
  std::int64_t lines_a_step;
};

// Sums [32 columns][32 rows] of the product over whole tiles of K.
template <bool two_columns, bool two_rows>
TRIREME_AMX_TARGET void add_up(const ColumnTiles& b, const std::uint32_t* a,
                               std::int64_t group, std::int64_t steps, Fetch fetch,
                               float* sums) {
  const auto stride = b.stride * static_cast<std::int64_t>(sizeof(std::uint16_t));
  constexpr int pair_line = 64, sum_line = amx_rows * sizeof(float);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const std::uint16_t* from = b.data;
  for (std::int64_t step = 0; step < steps; ++step) {
    _tile_stream_loadd(4, from, stride);
    _tile_loadd(6, a, pair_line);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (two_rows) {
      _tile_loadd(7, a + group, pair_line);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (two_columns) {
      _tile_stream_loadd(5, from + lines * b.stride, stride);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (two_rows) _tile_dpbf16ps(3, 5, 7);
    }
    for (std::int64_t i = 0; i < fetch.lines_a_step; ++i, fetch.at += 64)
      __builtin_prefetch(fetch.at, 0, 2);
    from += tile_depth;
    a += tile_pairs * lines;
  }
  _tile_stored(0, sums, sum_line);
  if constexpr (two_rows) _tile_stored(1, sums + lines, sum_line);
  if constexpr (two_columns) {
    _tile_stored(2, sums + lines * amx_rows, sum_line);
    if constexpr (two_rows) _tile_stored(3, sums + lines * amx_rows + lines, sum_line);
  }
}

// sums[column][row] of 16 columns, 32 apart, as rows.
TRIREME_BF16_TARGET inline void transpose_sums(const float* sums, __m512i (&rows)[16]) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) rows[i] = _mm512_loadu_si512(sums + i * amx_rows);
  transpose(rows);
}

// The biases of 16 columns; without one what adds nothing, not even to -0.
TRIREME_BF16_TARGET inline __m512 biases(const std::uint16_t* bias) {
  return bias != nullptr ? widen(_mm256_loadu_epi16(bias)) : _mm512_set1_ps(-0.0F);
}

// sums[column][row] of 32 columns, 32 apart, to `rows` rows of bf16.
TRIREME_BF16_TARGET void put_rounded(const float* sums, std::int64_t rows,
                                     std::uint16_t* to, std::int64_t stride,
                                     const std::uint16_t* bias) {
  const __m512 low_bias = biases(bias);
  const __m512 high_bias = biases(bias != nullptr ? bias + lines : nullptr);
  for (std::int64_t r = 0; r < rows; r += lines) {
    __m512i low[16], high[16];
    transpose_sums(sums + r, low);
    transpose_sums(sums + lines * amx_rows + r, high);
    for (std::int64_t i = 0; i < std::min(lines, rows - r); ++i, to += stride) {
      const __m512bh rounded =
          _mm512_cvtne2ps_pbh(_mm512_add_ps(_mm512_castsi512_ps(high[i]), high_bias),
                              _mm512_add_ps(_mm512_castsi512_ps(low[i]), low_bias));
      _mm512_storeu_si512(to, reinterpret_cast<__m512i>(rounded));
    }
  }
}

// sums[column][row], 32 apart, to their place: `rows` by `columns`.
TRIREME_BF16_TARGET void put(const float* sums, std::int64_t rows, std::int64_t columns,
                             const TileResult& result, std::int64_t row,
                             std::int64_t column) {
  if (columns == amx_columns && result.dtype == DType::bf16 && !result.accumulate)
    return put_rounded(
        sums, rows, static_cast<std::uint16_t*>(result.c) + row * result.stride + column,
        result.stride, result.bias != nullptr ? result.bias + column : nullptr);
  for (std::int64_t c = 0; c < columns; c += lines)
    for (std::int64_t r = 0; r < rows; r += lines) {
      __m512i tile[16];
      transpose_sums(sums + c * amx_rows + r, tile);
      const std::int64_t left = std::min(lines, columns - c);
      const auto mask = static_cast<__mmask16>((1u << left) - 1u);
      for (std::int64_t i = 0; i < std::min(lines, rows - r); ++i)
        finish(_mm512_castsi512_ps(tile[i]), result, row + r + i, column + c, mask);
    }
}

// Lines of B that are no whole tile, with zeros behind.
void copy_tile(const std::uint16_t* from, std::int64_t stride, std::int64_t columns,
               std::int64_t depth, std::int64_t padded, std::uint16_t* to) {
  for (std::int64_t j = 0; j < amx_columns; ++j) {
    std::uint16_t* const line = to + j * padded;
    const std::int64_t count = j < columns ? depth : 0;
    std::copy_n(from + (j < columns ? j : 0) * stride, count, line);
    std::fill(line + count, line + padded, std::uint16_t{0});
  }
}

}  // namespace

void AmxRows::multiply(const BFloat16* b, std::int64_t stride, std::int64_t columns,
                       const TileResult& result) const {
  const auto* const numbers = reinterpret_cast<const std::uint16_t*>(b);
  const std::int64_t steps = divide_up(depth_, tile_depth), padded = steps * tile_depth;
  const std::int64_t group = pairs_of(depth_) * lines;
  const std::int64_t fit = block_bytes / (2 * padded) / amx_columns * amx_columns;
  const std::int64_t block = std::clamp<std::int64_t>(fit, amx_columns, 256);
  alignas(64) float sums[amx_columns * amx_rows];
  std::vector<std::uint16_t> copied;
  configure_amx_tiles();
  for (std::int64_t first = 0; first < columns; first += block)
    for (std::int64_t row = 0; row < rows_; row += amx_rows)
      for (std::int64_t at = first; at < std::min(columns, first + block);
           at += amx_columns) {
        ColumnTiles tiles{numbers + at * stride, stride,
                          std::min(amx_columns, columns - at)};
        const bool whole = depth_ == padded && tiles.count % lines == 0;
        if (!whole) {
          copied.resize(static_cast<std::size_t>(amx_columns * padded));
          copy_tile(tiles.data, stride, tiles.count, depth_, padded, copied.data());
          tiles.data = copied.data();
          tiles.stride = padded;
        }
        const std::int64_t next = std::min(amx_columns, columns - at - tiles.count);
        const Fetch fetch{
            reinterpret_cast<const char*>(numbers + (at + amx_columns) * stride),
            row == 0 && next > 0 ? next * stride * 2 / 64 / steps : 0};
        const std::uint32_t* const a = packed_ + row / lines * group;
        const std::int64_t rows = std::min(amx_rows, rows_ - row);
        if (rows > lines)
          tiles.two() ? add_up<true, true>(tiles, a, group, steps, fetch, sums)
                      : add_up<false, true>(tiles, a, group, steps, fetch, sums);
        else
          tiles.two() ? add_up<true, false>(tiles, a, group, steps, fetch, sums)
                      : add_up<false, false>(tiles, a, group, steps, fetch, sums);
        put(sums, rows, tiles.count, result, row, at);
      }
  release_amx_tiles();
}

#else
void AmxRows::multiply(const BFloat16*, std::int64_t, std::int64_t,
                       const TileResult&) const {}
#endif

}  // namespace trireme::kernels
