// Packing of bf16 operands: pairs along K, by transposing or by interleaving.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/bf16_panels.hpp"

#include <algorithm>

#include "kernels/gemm/bf16_transpose.hpp"

namespace trireme::kernels {

#if TRIREME_HAS_BF16_TARGET
namespace {

constexpr std::int64_t pairs_at_once = 16;

// The first `count` of 32 16-bit elements are read.
TRIREME_BF16_TARGET inline __mmask32 first_elements(std::int64_t count) {
  return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}

// A pair of 16 lines, of which AMX wants all together.
template <bool together>
TRIREME_BF16_TARGET inline void store_pair(__m512i of_16_lines, PanelPlace& to) {
  if constexpr (together) {
    _mm512_storeu_si512(to.low, of_16_lines);
    to.low += to.step;
    return;
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.low),
                      _mm512_castsi512_si256(of_16_lines));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.high),
                      _mm512_extracti64x4_epi64(of_16_lines, 1));
  to.low += to.step;
  to.high += to.step;
}

// K lies along memory: 16 lines of 16 pairs are a matrix to transpose.
template <bool together>
TRIREME_BF16_TARGET void pack_lines(const PanelSource& from, PanelPlace to) {
  for (std::int64_t k = 0; k < from.depth; k += 2 * pairs_at_once) {
    const std::int64_t left = from.depth - k;
    const __mmask32 mask = first_elements(left);
    __m512i rows[16];
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j)
      rows[j] = j < from.lines
                    ? _mm512_maskz_loadu_epi16(mask, from.data + j * from.stride + k)
                    : _mm512_setzero_si512();
    transpose(rows);
    const std::int64_t pairs = std::min(pairs_at_once, (left + 1) / 2);
    for (std::int64_t p = 0; p < pairs; ++p) store_pair<together>(rows[p], to);
  }
}

// Lines lie along memory: two rows are interleaved.
template <bool together>
TRIREME_BF16_TARGET void pack_rows(const PanelSource& from, PanelPlace to) {
  const auto mask = static_cast<__mmask16>(first_elements(from.lines));
  for (std::int64_t k = 0; k < from.depth; k += 2) {
    const std::uint16_t* row = from.data + k * from.stride;
    const __m256i first = _mm256_maskz_loadu_epi16(mask, row);
    const __m256i second = k + 1 < from.depth
                               ? _mm256_maskz_loadu_epi16(mask, row + from.stride)
                               : _mm256_setzero_si256();
    store_pair<together>(
        _mm512_or_si512(_mm512_cvtepu16_epi32(first),
                        _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16)),
        to);
  }
}

}  // namespace

void pack_group(const PanelSource& from, PanelPlace to) {
  if (to.high == to.low + panel_group / 2)
    from.lines_apart ? pack_lines<true>(from, to) : pack_rows<true>(from, to);
  else
    from.lines_apart ? pack_lines<false>(from, to) : pack_rows<false>(from, to);
}

#else
void pack_group(const PanelSource&, PanelPlace) {}
#endif

}  // namespace trireme::kernels
