// Tiles of bf16 products by AMX (TDPBF16PS), and the packing of op(A) for them.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/amx_tile.hpp"

#include <algorithm>
#include <utility>

#include "base/split.hpp"
#include "kernels/gemm/bf16_product.hpp"
#include "kernels/gemm/bf16_sums.hpp"
#include "kernels/gemm/bf16_transpose.hpp"

#if TRIREME_HAS_BF16_TARGET && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace trireme::kernels {

#if TRIREME_HAS_BF16_TARGET && defined(__linux__)
namespace {

#define TRIREME_AMX_TARGET \
  __attribute__((          \
      target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,amx-tile,amx-bf16")))

constexpr std::int64_t tile_pairs = 16;
constexpr std::int64_t tile_numbers = panel_group * tile_pairs;
constexpr int tile_bytes = 64;  // of a line

bool processor_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned bf16 = 1u << 22, tile = 1u << 24;
  return (d & bf16) != 0 && (d & tile) != 0;
}

// Linux gives a process the state of tiles only when asked (arch_prctl(2)).
bool system_allows_amx() {
  constexpr long request_permission = 0x1023, tile_data = 18;
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

// LDTILECFG's operand: all eight tiles have 16 lines of 64 bytes.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t line_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t lines[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// The columns of a register of sums that exist.
inline __mmask16 first_columns(std::int64_t count) {
  return static_cast<__mmask16>(count >= sums_lanes ? 0xffffu : (1u << count) - 1u);
}

// Rows of what is done, up to `end`, to their place.
TRIREME_BF16_TARGET inline void finish_rows(AmxSums& sums, std::int64_t end) {
  const __mmask16 low = first_columns(sums.columns);
  const __mmask16 high = first_columns(std::max<std::int64_t>(sums.columns - 16, 0));
  for (; sums.row < end; ++sums.row) {
    const float* from = sums.done + sums.row * amx_columns;
    finish(_mm512_load_ps(from), sums.result, sums.row, 0, low);
    if (high != 0)
      finish(_mm512_load_ps(from + sums_lanes), sums.result, sums.row, sums_lanes, high);
  }
}

// Sums of up to 2 x 2 tiles, to sums.next, 32 a line. Tiles 0 to 3 hold sums, 4 and 5
// op(A), 6 and 7 op(B). Meanwhile what is done goes to its place, some rows at a time,
// and the place of the next is asked for.
template <bool two_rows, bool two_columns>
TRIREME_AMX_TARGET void add_up(const std::uint32_t* a, const std::uint32_t* b,
                               std::int64_t pairs, AmxSums& sums,
                               const TileResult& result, std::int64_t rows,
                               std::int64_t columns) {
  constexpr int line = amx_columns * sizeof(float);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const std::int64_t group = pairs * panel_group;
  const std::int64_t step = divide_up(amx_rows * tile_pairs, pairs);
  std::int64_t row = 0;
  const std::uint32_t* const a_end = a + group;
  for (; a < a_end; a += tile_numbers, b += tile_numbers) {
    _tile_loadd(6, b, tile_bytes);
    _tile_loadd(4, a, tile_bytes);
    if constexpr (two_columns) _tile_loadd(7, b + group, tile_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (two_rows) _tile_loadd(5, a + group, tile_bytes);
    if constexpr (two_columns) _tile_dpbf16ps(1, 4, 7);
    if constexpr (two_rows) _tile_dpbf16ps(2, 5, 6);
    if constexpr (two_rows && two_columns) _tile_dpbf16ps(3, 5, 7);
    finish_rows(sums, std::min(sums.rows, sums.row + step));
    prefetch(result, row, std::min(rows, row + step), columns);
    row += step;
  }
  finish_rows(sums, sums.rows);
  float *const to = sums.next, *const below = to + panel_group * amx_columns;
  _tile_stored(0, to, line);
  if constexpr (two_columns) _tile_stored(1, to + panel_group, line);
  if constexpr (two_rows) _tile_stored(2, below, line);
  if constexpr (two_rows && two_columns) _tile_stored(3, below + panel_group, line);
}

// K lies along memory: lines are copied, 16 pairs at a time.
TRIREME_BF16_TARGET void copy_lines(const PanelSource& from, std::uint32_t* to) {
  for (std::int64_t k = 0; k < from.depth; k += 2 * tile_pairs) {
    const std::int64_t left = from.depth - k;
    const __mmask32 mask = left >= 32 ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
    for (std::int64_t line = 0; line < panel_group; ++line, to += tile_pairs)
      _mm512_storeu_si512(
          to, line < from.lines
                  ? _mm512_maskz_loadu_epi16(mask, from.data + line * from.stride + k)
                  : _mm512_setzero_si512());
  }
}

// Lines lie along memory: pairs are interleaved from two rows, and 16 of them transposed.
TRIREME_BF16_TARGET void turn_lines(const PanelSource& from, std::uint32_t* to) {
  const auto mask = static_cast<__mmask16>(
      (1u << std::min<std::int64_t>(from.lines, panel_group)) - 1u);
  for (std::int64_t k = 0; k < from.depth; k += 2 * tile_pairs) {
    __m512i pairs[16];
#pragma GCC unroll 16
    for (int p = 0; p < 16; ++p) {
      const std::int64_t at = k + 2 * p;
      const std::uint16_t* row = from.data + at * from.stride;
      const __m256i none = _mm256_setzero_si256();
      const __m256i first = at < from.depth ? _mm256_maskz_loadu_epi16(mask, row) : none;
      const __m256i second =
          at + 1 < from.depth ? _mm256_maskz_loadu_epi16(mask, row + from.stride) : none;
      pairs[p] = _mm512_or_si512(_mm512_cvtepu16_epi32(first),
                                 _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16));
    }
    transpose(pairs);
#pragma GCC unroll 16
    for (int line = 0; line < 16; ++line, to += tile_pairs)
      _mm512_storeu_si512(to, pairs[line]);
  }
}

}  // namespace

bool has_amx() {
  static const bool has =
      has_bf16_products() && processor_has_amx() && system_allows_amx();
  return has;
}

TRIREME_AMX_TARGET void configure_amx_tiles() {
  static constexpr TileShapes shapes;
  _tile_loadconfig(&shapes);
}

TRIREME_AMX_TARGET void release_amx_tiles() { _tile_release(); }

void pack_tiles(const PanelSource& from, PanelPlace to) {
  from.lines_apart ? copy_lines(from, to.low) : turn_lines(from, to.low);
}

void multiply_amx_tile(const std::uint32_t* a, const std::uint32_t* b, std::int64_t pairs,
                       std::int64_t rows, std::int64_t columns, const TileResult& result,
                       AmxSums& sums) {
  const bool two_rows = rows > panel_group, two_columns = columns > panel_group;
  const auto add = two_rows ? (two_columns ? add_up<true, true> : add_up<true, false>)
                            : (two_columns ? add_up<false, true> : add_up<false, false>);
  add(a, b, pairs, sums, result, rows, columns);
  std::swap(sums.done, sums.next);
  sums.result = result;
  sums.rows = rows;
  sums.columns = columns;
  sums.row = 0;
}

void finish_amx_tiles(AmxSums& sums) { finish_rows(sums, sums.rows); }

#else
bool has_amx() { return false; }
void configure_amx_tiles() {}
void release_amx_tiles() {}
void pack_tiles(const PanelSource&, PanelPlace) {}
void multiply_amx_tile(const std::uint32_t*, const std::uint32_t*, std::int64_t,
                       std::int64_t, std::int64_t, const TileResult&, AmxSums&) {}
void finish_amx_tiles(AmxSums&) {}
#endif

}  // namespace trireme::kernels
