// Attention's products by VDPBF16PS: a tile of sums in registers, and how words are made.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/attention_pairs.hpp"

#include <algorithm>

#include "kernels/gemm/bf16_panels.hpp"
#include "kernels/gemm/bf16_target.hpp"

namespace trireme::kernels::pairs {

#if TRIREME_HAS_BF16_TARGET
namespace {

using simd::Matrix, simd::Previous;

constexpr std::int64_t lanes = 16;
constexpr int most_rows = 6, most_registers = 4;  // of a tile: 24 sums

TRIREME_BF16_TARGET inline __m512bh as_pairs(__m512i words) {
  return reinterpret_cast<__m512bh>(words);
}

template <int M, int N>
TRIREME_BF16_TARGET void tile(std::int64_t words, Left a, Matrix<const float> b,
                              Matrix<float> c, float factor, Previous<float> previous) {
  __m512 sums[M][N];
#pragma GCC unroll 6
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) sums[m][v] = _mm512_setzero_ps();
  for (std::int64_t p = 0; p < words; ++p) {
    __m512bh right[N];
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v)
      right[v] = as_pairs(_mm512_loadu_si512(b.data + p * b.stride + v * lanes));
#pragma GCC unroll 6
    for (int m = 0; m < M; ++m) {
      const __m512bh left =
          as_pairs(_mm512_castps_si512(_mm512_set1_ps(a.data[m * a.line + p * a.word])));
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v)
        sums[m][v] = _mm512_dpbf16_ps(sums[m][v], left, right[v]);
    }
  }
  const __m512 factors = _mm512_set1_ps(factor);
#pragma GCC unroll 6
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      float* const to = c.data + m * c.stride + v * lanes;
      __m512 sum = _mm512_mul_ps(sums[m][v], factors);
      if (previous.factor != nullptr)
        sum = _mm512_fmadd_ps(_mm512_loadu_ps(to),
                              _mm512_loadu_ps(previous.factor + v * lanes), sum);
      else if (previous.kept)
        sum = _mm512_add_ps(sum, _mm512_loadu_ps(to));
      _mm512_storeu_ps(to, sum);
    }
}

template <int N, int M = most_rows>
void multiply_rows(std::int64_t rows, std::int64_t words, Left a, Matrix<const float> b,
                   Matrix<float> c, float factor, Previous<float> previous) {
  if constexpr (M > 1)
    if (rows < M) return multiply_rows<N, M - 1>(rows, words, a, b, c, factor, previous);
  tile<M, N>(words, a, b, c, factor, previous);
}

template <int N = most_registers>
void multiply_columns(int registers, std::int64_t rows, std::int64_t words, Left a,
                      Matrix<const float> b, Matrix<float> c, float factor,
                      Previous<float> previous) {
  if constexpr (N > 1)
    if (registers < N)
      return multiply_columns<N - 1>(registers, rows, words, a, b, c, factor, previous);
  const std::int64_t tiles = divide_up(rows, std::int64_t{most_rows});
  for (std::int64_t i = 0; i < tiles; ++i) {
    const Range part = split_range(rows, tiles, i);
    multiply_rows<N>(part.count(), words, {a.data + part.begin * a.line, a.line, a.word},
                     b, {c.data + part.begin * c.stride, c.stride}, factor, previous);
  }
}

// 16 numbers, rounded, each in the low half of a word.
TRIREME_BF16_TARGET inline __m512i rounded(const float* from) {
  const __m256bh narrow = _mm512_cvtneps_pbh(_mm512_loadu_ps(from));
  __m256i bits;
  __builtin_memcpy(&bits, &narrow, sizeof bits);
  return _mm512_cvtepu16_epi32(bits);
}

PanelSource source_of(const BFloat16* from, std::int64_t stride, bool lines_apart,
                      std::int64_t lines, std::int64_t depth) {
  return {reinterpret_cast<const std::uint16_t*>(from), stride, lines_apart, lines,
          depth};
}

PanelPlace place_at(float* to, std::int64_t step) {
  auto* const words = reinterpret_cast<std::uint32_t*>(to);
  return {words, words + panel_group / 2, step};
}

}  // namespace

void multiply(std::int64_t rows, std::int64_t columns, std::int64_t words, Left a,
              Matrix<const float> b, Matrix<float> c, float factor,
              Previous<float> previous) {
  constexpr std::int64_t widest = most_registers * lanes;
  for (std::int64_t at = 0; at < columns; at += widest) {
    const std::int64_t width = std::min(widest, columns - at);
    multiply_columns(
        static_cast<int>(width / lanes), rows, words, a, {b.data + at, b.stride},
        {c.data + at, c.stride}, factor,
        {previous.kept, previous.factor != nullptr ? previous.factor + at : nullptr});
  }
}

TRIREME_BF16_TARGET void pack_rows(const BFloat16* from, std::int64_t stride,
                                   std::int64_t rows, std::int64_t width,
                                   std::int64_t padded_width, float* to) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < padded_width; c += lanes) {
      const std::int64_t left = std::clamp<std::int64_t>(width - c, 0, lanes);
      const auto mask = static_cast<__mmask16>((1u << left) - 1u);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (r * padded_width + c) / 2),
                          _mm256_maskz_loadu_epi16(mask, from + r * stride + c));
    }
}

void pack_row_pairs(const BFloat16* from, std::int64_t stride, std::int64_t rows,
                    std::int64_t width, std::int64_t padded_width, float* to) {
  for (std::int64_t c = 0; c < padded_width; c += panel_group) {
    const std::int64_t lines = std::clamp<std::int64_t>(width - c, 0, panel_group);
    pack_group(source_of(from + c, stride, false, lines, rows),
               place_at(to + c, padded_width));
  }
}

void pack_columns(const BFloat16* from, std::int64_t stride, std::int64_t rows,
                  std::int64_t padded_rows, std::int64_t width, std::int64_t padded_width,
                  float* to, std::int64_t to_stride) {
  for (std::int64_t r = 0; r < padded_rows; r += panel_group) {
    const std::int64_t lines = std::clamp<std::int64_t>(rows - r, 0, panel_group);
    pack_group(source_of(from + r * stride, stride, true, lines, width),
               place_at(to + r, to_stride));
    for (std::int64_t p = divide_up(width, std::int64_t{2}); p < padded_width / 2; ++p)
      std::fill_n(to + p * to_stride + r, panel_group, 0.0F);
  }
}

TRIREME_BF16_TARGET void round_rows(Matrix<const float> from, std::int64_t rows,
                                    std::int64_t begin, std::int64_t end,
                                    Matrix<float> to) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = begin; c < end; c += lanes)
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(to.data + r * to.stride + c / 2),
          _mm512_cvtepi32_epi16(rounded(from.data + r * from.stride + c)));
}

TRIREME_BF16_TARGET void round_row_pairs(Matrix<const float> from, std::int64_t rows,
                                         std::int64_t begin, std::int64_t end,
                                         Matrix<float> to) {
  for (std::int64_t r = 0; r < rows; r += 2)
    for (std::int64_t c = begin; c < end; c += lanes) {
      const float* const first = from.data + r * from.stride + c;
      const __m512i second = r + 1 < rows
                                 ? _mm512_slli_epi32(rounded(first + from.stride), 16)
                                 : _mm512_setzero_si512();
      _mm512_storeu_si512(to.data + r / 2 * to.stride + c,
                          _mm512_or_si512(rounded(first), second));
    }
}

#else
void multiply(std::int64_t, std::int64_t, std::int64_t, Left, simd::Matrix<const float>,
              simd::Matrix<float>, float, simd::Previous<float>) {}
void pack_rows(const BFloat16*, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
               float*) {}
void pack_row_pairs(const BFloat16*, std::int64_t, std::int64_t, std::int64_t,
                    std::int64_t, float*) {}
void pack_columns(const BFloat16*, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                  std::int64_t, float*, std::int64_t) {}
void round_rows(simd::Matrix<const float>, std::int64_t, std::int64_t, std::int64_t,
                simd::Matrix<float>) {}
void round_row_pairs(simd::Matrix<const float>, std::int64_t, std::int64_t, std::int64_t,
                     simd::Matrix<float>) {}
#endif

}  // namespace trireme::kernels::pairs
