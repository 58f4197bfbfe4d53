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

// Rows of what is done to their place, one at a time.
struct AnyRows {
  const float* from;
  TileResult to;
  std::int64_t columns, row = 0;

  explicit AnyRows(const AmxSums& sums)
      : from(sums.done), to(sums.result), columns(sums.columns) {}
  TRIREME_BF16_TARGET void put() {
    finish(_mm512_load_ps(from), to, row, 0, first_columns(columns));
    if (columns > sums_lanes)
      finish(_mm512_load_ps(from + sums_lanes), to, row, sums_lanes,
             first_columns(columns - sums_lanes));
    from += amx_columns;
    ++row;
  }
};

// The same for 32 columns of f32, written or added to.
template <bool added>
struct SumRows {
  const float* from;
  float* to;
  std::int64_t stride;

  explicit SumRows(const AmxSums& sums)
      : from(sums.done),
        to(static_cast<float*>(sums.result.c)),
        stride(sums.result.stride) {}
  TRIREME_BF16_TARGET void put() {
    __m512 low = _mm512_load_ps(from), high = _mm512_load_ps(from + sums_lanes);
    if constexpr (added) {
      low = _mm512_add_ps(low, _mm512_loadu_ps(to));
      high = _mm512_add_ps(high, _mm512_loadu_ps(to + sums_lanes));
    }
    _mm512_storeu_ps(to, low);
    _mm512_storeu_ps(to + sums_lanes, high);
    from += amx_columns;
    to += stride;
  }
};

// For 32 columns of bf16, with the sums of earlier steps if there are any, and a bias.
template <bool earlier>
struct RoundedRows {
  const float *from, *add;
  std::int64_t add_stride, stride;
  std::uint16_t* to;
  __m512 bias_low, bias_high;

  TRIREME_BF16_TARGET explicit RoundedRows(const AmxSums& sums)
      : from(sums.done),
        add(sums.result.add),
        add_stride(sums.result.add_stride),
        stride(sums.result.stride),
        to(static_cast<std::uint16_t*>(sums.result.c)) {
    bias_low = bias_high = _mm512_set1_ps(-0.0F);  // adds nothing, not even to -0
    if (sums.result.bias == nullptr) return;
    bias_low = widen(_mm256_loadu_epi16(sums.result.bias));
    bias_high = widen(_mm256_loadu_epi16(sums.result.bias + sums_lanes));
  }
  TRIREME_BF16_TARGET void put() {
    __m512 low = _mm512_load_ps(from), high = _mm512_load_ps(from + sums_lanes);
    if constexpr (earlier) {
      low = _mm512_add_ps(low, _mm512_loadu_ps(add));
      high = _mm512_add_ps(high, _mm512_loadu_ps(add + sums_lanes));
      add += add_stride;
    }
    const __m512bh rounded =
        _mm512_cvtne2ps_pbh(_mm512_add_ps(high, bias_high), _mm512_add_ps(low, bias_low));
    _mm512_storeu_si512(to, reinterpret_cast<__m512i>(rounded));
    from += amx_columns;
    to += stride;
  }
};

// Sums of up to 2 x 2 tiles, to sums.next, 32 a line. Tiles 0 to 3 hold sums, 4 and 5
// op(A), 6 and 7 op(B), which is read past the first cache (TILELOADDT1) so that it
// leaves op(A) there for the next columns. Meanwhile what is done goes to its place by
// `Rows`, some rows at a time, and the place of the next is asked for.
template <class Rows, bool two_rows, bool two_columns>
TRIREME_AMX_TARGET void add_up(const std::uint32_t* a, const std::uint32_t* b,
                               std::int64_t pairs, const AmxSums& sums,
                               const TileResult& result, std::int64_t rows) {
  constexpr int line = amx_columns * sizeof(float);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const std::int64_t group = pairs * panel_group;
  const std::int64_t step = divide_up(amx_rows * tile_pairs, pairs);
  Rows done(sums);
  std::int64_t left = sums.rows, next = rows;
  const auto element = static_cast<std::int64_t>(size_of(result.dtype));
  const std::int64_t stride = result.stride * element;
  const char* place = static_cast<const char*>(result.c);
  const std::uint32_t* const a_end = a + group;
  for (; a < a_end; a += tile_numbers, b += tile_numbers) {
    _tile_stream_loadd(6, b, tile_bytes);
    _tile_loadd(4, a, tile_bytes);
    if constexpr (two_columns) _tile_stream_loadd(7, b + group, tile_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (two_rows) _tile_loadd(5, a + group, tile_bytes);
    if constexpr (two_columns) _tile_dpbf16ps(1, 4, 7);
    if constexpr (two_rows) _tile_dpbf16ps(2, 5, 6);
    if constexpr (two_rows && two_columns) _tile_dpbf16ps(3, 5, 7);
    for (std::int64_t i = std::min(step, left); i > 0; --i, --left) done.put();
    for (std::int64_t i = std::min(step, next); i > 0; --i, --next, place += stride) {
      __builtin_prefetch(place, 1);
      if (element == sizeof(float)) __builtin_prefetch(place + 64, 1);
    }
  }
  for (; left > 0; --left) done.put();
  float *const to = sums.next, *const below = to + panel_group * amx_columns;
  _tile_stored(0, to, line);
  if constexpr (two_columns) _tile_stored(1, to + panel_group, line);
  if constexpr (two_rows) _tile_stored(2, below, line);
  if constexpr (two_rows && two_columns) _tile_stored(3, below + panel_group, line);
}

using AddUp = void (*)(const std::uint32_t*, const std::uint32_t*, std::int64_t,
                       const AmxSums&, const TileResult&, std::int64_t);

// For whole tiles: how what is done goes to its place is known before its rows are.
AddUp add_up_whole(const AmxSums& sums) {
  const TileResult& to = sums.result;
  const bool plain = sums.columns == amx_columns && sums.rows > 0;
  if (plain && to.dtype == DType::f32 && to.add == nullptr && to.bias == nullptr)
    return to.accumulate ? add_up<SumRows<true>, true, true>
                         : add_up<SumRows<false>, true, true>;
  if (plain && to.dtype == DType::bf16 && !to.accumulate)
    return to.add != nullptr ? add_up<RoundedRows<true>, true, true>
                             : add_up<RoundedRows<false>, true, true>;
  return add_up<AnyRows, true, true>;
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
  AddUp add = two_rows && two_columns ? add_up_whole(sums) : add_up<AnyRows, true, false>;
  if (!two_rows)
    add = two_columns ? add_up<AnyRows, false, true> : add_up<AnyRows, false, false>;
  add(a, b, pairs, sums, result, rows);
  std::swap(sums.done, sums.next);
  sums.result = result;
  sums.rows = rows;
  sums.columns = columns;
}

void finish_amx_tiles(AmxSums& sums) {
  AnyRows done(sums);
  for (; sums.rows > 0; --sums.rows) done.put();
}

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
