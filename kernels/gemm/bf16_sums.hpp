// What becomes of f32 sums of bf16 products: earlier parts, bias, C, one rounding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm/bf16_target.hpp"
#include "kernels/gemm/bf16_tile.hpp"

#if TRIREME_HAS_BF16_TARGET
namespace trireme::kernels {

constexpr std::int64_t sums_lanes = 16;

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

// Rows [begin, end) of C are asked for before the sums are made: they come from memory
// meanwhile.
TRIREME_BF16_TARGET inline void prefetch(const TileResult& to, std::int64_t begin,
                                         std::int64_t end, std::int64_t columns) {
  const auto element = static_cast<std::int64_t>(size_of(to.dtype));
  for (std::int64_t row = begin; row < end; ++row) {
    const char* line = static_cast<const char*>(to.c) + row * to.stride * element;
    for (std::int64_t at = 0; at < columns * element; at += 64)
      __builtin_prefetch(line + at, 1);
  }
}

}  // namespace trireme::kernels
#endif
