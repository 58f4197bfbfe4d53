// The innermost loop of bf16 products, by VDPBF16PS.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/bf16_tile.hpp"

#include <algorithm>

#include "kernels/gemm/bf16_sums.hpp"

namespace trireme::kernels {

#if TRIREME_HAS_BF16_TARGET
namespace {

constexpr std::int64_t lanes = sums_lanes;

template <int registers>
TRIREME_BF16_TARGET void tile(const std::uint32_t* a, const std::uint32_t* b,
                              std::int64_t pairs, std::int64_t rows, std::int64_t columns,
                              const TileResult& to, NextOperands& next) {
  __m512 sums[tile_rows][registers];
#pragma GCC unroll 8
  for (int row = 0; row < tile_rows; ++row)
#pragma GCC unroll 3
    for (int v = 0; v < registers; ++v) sums[row][v] = _mm512_setzero_ps();
  // A row of C is asked for with each part of the sums, and some of what is packed next.
  const std::int64_t part = divide_up(pairs, fetches_of_tile);
  for (std::int64_t i = 0, p = 0; i < fetches_of_tile; ++i) {
    if (i < rows) prefetch(to, i, i + 1, columns);
    next.left.fetch();
    next.right.fetch();
    for (const std::int64_t end = std::min(pairs, p + part); p < end; ++p) {
      __m512bh right[registers];
#pragma GCC unroll 3
      for (int v = 0; v < registers; ++v)
        right[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + v * lanes));
#pragma GCC unroll 8
      for (int row = 0; row < tile_rows; ++row) {
        const auto left =
            reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(a[row])));
#pragma GCC unroll 3
        for (int v = 0; v < registers; ++v)
          sums[row][v] = _mm512_dpbf16_ps(sums[row][v], left, right[v]);
      }
      a += tile_rows;
      b += registers * lanes;
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < tile_rows; ++row) {
    if (row >= rows) return;
#pragma GCC unroll 3
    for (int v = 0; v < registers; ++v) {
      const std::int64_t left = columns - v * lanes;
      const auto mask =
          static_cast<__mmask16>(left >= lanes ? 0xffffu : (1u << left) - 1u);
      finish(sums[row][v], to, row, v * lanes, mask);
    }
  }
}

}  // namespace

void multiply_tile(const std::uint32_t* a, const std::uint32_t* b, std::int64_t pairs,
                   std::int64_t rows, std::int64_t columns, const TileResult& result,
                   NextOperands& next) {
  if (columns > 2 * lanes) return tile<3>(a, b, pairs, rows, columns, result, next);
  if (columns > lanes) return tile<2>(a, b, pairs, rows, columns, result, next);
  tile<1>(a, b, pairs, rows, columns, result, next);
}

#else
void multiply_tile(const std::uint32_t*, const std::uint32_t*, std::int64_t, std::int64_t,
                   std::int64_t, const TileResult&, NextOperands&) {}
#endif

}  // namespace trireme::kernels
