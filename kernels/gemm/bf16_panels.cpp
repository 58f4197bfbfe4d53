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

// Of two rows of 32 lines, those of the first 16 lines, and of the last.
TRIREME_BF16_TARGET inline __m512i first_16_pairs(__m512i even, __m512i odd) {
  const __m512i order =
      _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39,
                       7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  return _mm512_permutex2var_epi16(even, order, odd);
}

TRIREME_BF16_TARGET inline __m512i last_16_pairs(__m512i even, __m512i odd) {
  const __m512i order =
      _mm512_set_epi16(63, 31, 62, 30, 61, 29, 60, 28, 59, 27, 58, 26, 57, 25, 56, 24, 55,
                       23, 54, 22, 53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16);
  return _mm512_permutex2var_epi16(even, order, odd);
}

// Two pairs of 16 lines, of which a panel of 8 has a cache line.
TRIREME_BF16_TARGET inline void store_two_pairs(__m512i first, __m512i second,
                                                PanelPlace& to) {
  _mm512_storeu_si512(to.low,
                      _mm512_inserti64x4(first, _mm512_castsi512_si256(second), 1));
  _mm512_storeu_si512(to.high, _mm512_shuffle_i64x2(first, second, 0xee));
  to.low += 2 * to.step;
  to.high += 2 * to.step;
}

// Lines lie along memory: two rows are interleaved.
template <bool together>
TRIREME_BF16_TARGET void pack_rows(const PanelSource& from, PanelPlace first,
                                   PanelPlace second) {
  const __mmask32 mask = first_elements(from.lines);
  const bool two = from.lines > panel_group;
  const std::uint16_t* row = from.data;
  std::int64_t k = 0;
  for (; !together && k + 4 <= from.depth; k += 4) {
    const __m512i r0 = _mm512_maskz_loadu_epi16(mask, row);
    const __m512i r1 = _mm512_maskz_loadu_epi16(mask, row + from.stride);
    const __m512i r2 = _mm512_maskz_loadu_epi16(mask, row + 2 * from.stride);
    const __m512i r3 = _mm512_maskz_loadu_epi16(mask, row + 3 * from.stride);
    row += 4 * from.stride;
    store_two_pairs(first_16_pairs(r0, r1), first_16_pairs(r2, r3), first);
    if (two) store_two_pairs(last_16_pairs(r0, r1), last_16_pairs(r2, r3), second);
  }
  for (; k < from.depth; k += 2) {
    const __m512i even = _mm512_maskz_loadu_epi16(mask, row);
    const __m512i odd = k + 1 < from.depth
                            ? _mm512_maskz_loadu_epi16(mask, row + from.stride)
                            : _mm512_setzero_si512();
    row += 2 * from.stride;
    store_pair<together>(first_16_pairs(even, odd), first);
    if (two) store_pair<together>(last_16_pairs(even, odd), second);
  }
}

}  // namespace

void pack_groups(const PanelSource& from, PanelPlace first, PanelPlace second) {
  const bool together = first.high == first.low + panel_group / 2;
  if (!from.lines_apart)
    return together ? pack_rows<true>(from, first, second)
                    : pack_rows<false>(from, first, second);
  const auto pack = together ? pack_lines<true> : pack_lines<false>;
  pack(from.part(0, std::min(panel_group, from.lines), 0, from.depth), first);
  if (from.lines > panel_group)
    pack(from.part(panel_group, from.lines - panel_group, 0, from.depth), second);
}

#else
void pack_groups(const PanelSource&, PanelPlace, PanelPlace) {}
#endif

}  // namespace trireme::kernels
