// The innermost loop of bf16 products, by VDPBF16PS.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/bf16_tile.hpp"

#include "kernels/gemm/bf16_target.hpp"

namespace trireme::kernels {

#if TRIREME_HAS_BF16_TARGET
namespace {

constexpr std::int64_t lanes = 16;

TRIREME_BF16_TARGET inline __m512 widen(__m256i bf16) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}

// One register of sums to its place; `mask` are the columns that exist.
TRIREME_BF16_TARGET inline void finish(__m512 sum, const TileResult& to, std::int64_t row,
                                       std::int64_t column, __mmask16 mask) {
  if (to.add != nullptr)
    sum = _mm512_add_ps(
        sum, _mm512_maskz_loadu_ps(mask, to.add + row * to.add_stride + column));
  if (to.bias != nullptr)
    sum = _mm512_add_ps(sum, widen(_mm256_maskz_loadu_epi16(mask, to.bias + column)));
  if (to.dtype == DType::f32) {
    float* c = static_cast<float*>(to.c) + row * to.stride + column;
    if (to.accumulate) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, c));
    _mm512_mask_storeu_ps(c, mask, sum);
    return;
  }
  std::uint16_t* c = static_cast<std::uint16_t*>(to.c) + row * to.stride + column;
  if (to.accumulate) sum = _mm512_add_ps(sum, widen(_mm256_maskz_loadu_epi16(mask, c)));
  const __m256bh rounded = _mm512_cvtneps_pbh(sum);
  __m256i bits;
  __builtin_memcpy(&bits, &rounded, sizeof bits);
  _mm256_mask_storeu_epi16(c, mask, bits);
}

// C is asked for before the sums are made: it comes from memory meanwhile.
TRIREME_BF16_TARGET inline void prefetch(const TileResult& to, std::int64_t rows,
                                         std::int64_t columns) {
  const auto element = static_cast<std::int64_t>(size_of(to.dtype));
  for (std::int64_t row = 0; row < rows; ++row) {
    const char* line = static_cast<const char*>(to.c) + row * to.stride * element;
    for (std::int64_t at = 0; at < columns * element; at += 64)
      __builtin_prefetch(line + at, 1);
  }
}

template <int registers>
TRIREME_BF16_TARGET void tile(const std::uint32_t* a, const std::uint32_t* b,
                              std::int64_t pairs, std::int64_t rows, std::int64_t columns,
                              const TileResult& to) {
  prefetch(to, rows, columns);
  __m512 sums[tile_rows][registers];
#pragma GCC unroll 8
  for (int row = 0; row < tile_rows; ++row)
#pragma GCC unroll 3
    for (int v = 0; v < registers; ++v) sums[row][v] = _mm512_setzero_ps();
  for (std::int64_t p = 0; p < pairs; ++p) {
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
                   std::int64_t rows, std::int64_t columns, const TileResult& result) {
  if (columns > 2 * lanes) return tile<3>(a, b, pairs, rows, columns, result);
  if (columns > lanes) return tile<2>(a, b, pairs, rows, columns, result);
  tile<1>(a, b, pairs, rows, columns, result);
}

#else
void multiply_tile(const std::uint32_t*, const std::uint32_t*, std::int64_t, std::int64_t,
                   std::int64_t, const TileResult&) {}
#endif

}  // namespace trireme::kernels
