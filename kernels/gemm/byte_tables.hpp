// Codes of a byte (E4M3, int8) as bf16, looked up by byte.
// SPDX-License-Identifier: Apache-2.0
// A block of scales that many codes share has a table of the 128 numbers that are not
// negative, rounded once for all rows of the block: 64 codes take a look-up for the low
// bytes, one for the high bytes, and their signs.
#pragma once

#include "kernels/gemm/ahead.hpp"
#include "kernels/gemm/coded_rows.hpp"
#include "kernels/gemm/pairs.hpp"

#if defined(__AVX512VBMI__)
#define TRIREME_BYTE_TABLES

namespace trireme::kernels::few_rows {

// Sums of products with rows of bf16 that come as registers of 32 neighbours, in the
// order in which products of numbers add them up.
struct SumsOfNeighbours {
  static constexpr std::int64_t in_register = 32;
#if defined(TRIREME_PAIRS)
  using Left = BFloat16;  // A as it is multiplied
  static constexpr bool in_order = true;
  static constexpr int element(int place) { return place; }
  static constexpr std::int64_t step = Pairs::step;
  Pairs::Sums sums = {};

  [[gnu::always_inline]] void add(const Left* a, const __m512i (&b)[4]) {
    Pairs::add(sums, Pairs::read(a), {b[0], b[1], b[2], b[3]});
  }
  // Together with `count` elements more, less than a step.
  float total(const BFloat16* a, const BFloat16* b, std::int64_t count) const {
    return Pairs::total(sums, a, b, count);
  }
#else
  using Left = float;
  static constexpr bool in_order = false;
  // Even and odd elements of 32 apart, as those of numbers (load_two).
  static constexpr int element(int place) {
    return place / 32 * 32 + even_and_odd_element(place % 32);
  }
  static constexpr std::int64_t step = 4 * in_register;
  Floats sums[2] = {};

  [[gnu::always_inline]] void add(const Left* a, const __m512i (&b)[4]) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const auto words = std::bit_cast<Words>(b[r]);
      add_product(sums, load_two(a + r * in_register),
                  {std::bit_cast<Floats>(words << 16),
                   std::bit_cast<Floats>(words & 0xffff0000u)});
    }
  }
  float total(const BFloat16* a, const BFloat16* b, std::int64_t count) {
    for (; count >= in_register; count -= in_register) {
      add_product(sums, load_two(a), load_two(b));
      a += in_register;
      b += in_register;
    }
    return sum_of({sums[0], sums[1]}, a, b, count);
  }
#endif
};

// One row of A, with rows of codes one after the other. by_factor: see CodedMatrix.
template <CodeType type, bool by_factor>
struct InByteTables {
  static_assert(type == CodeType::int8 || (type == CodeType::e4m3 && !by_factor));
  using Sums = SumsOfNeighbours;
  using Left = Sums::Left;
  static constexpr bool in_order = Sums::in_order;
  static constexpr int element(int place) { return Sums::element(place); }
  static constexpr std::int64_t step = Sums::step;

  // Bytes of numbers: low ones of codes 0 to 63 and 64 to 127, then high ones; both of
  // 128, which int8 has below 0 alone.
  struct Table {
    std::uint8_t bytes[4][64];
    std::uint8_t of_128[2];
  };

  const CodedMatrix& m;
  const BFloat16* a;
  const Left* x;  // its whole steps as they are multiplied
  CodedRows coded{m};

  // Whether each step has one scale, and tables cost little beside the codes they serve.
  static bool takes(const CodedMatrix& m) {
    constexpr std::int64_t served = 512;  // codes of a table at least
    const ScaleLayout& layout = m.layout;
    const std::int64_t width = std::min(layout.columns, m.shape[1]);
    return m.type == type && m.zeros.empty() && by_factor == (m.factor != 1.0f) &&
           Steps<BFloat16>(m).first == DType::f32 && !layout.runs &&
           scales_end_with(m, step) && width >= step &&
           width * std::min(layout.rows, m.shape[0]) >= served;
  }

  // The tables of the blocks of one row.
  void fill(std::int64_t row, Table* tables) const {
    const float* const numbers = numbers_of(m);
    const std::int64_t first = first_block(row), count = coded.blocks_of(row) - first;
    const float* const of_blocks = coded.scales_from(row) + first;
    for (std::int64_t block = 0; block < count; ++block) {
      Table& table = tables[block];
      const auto rounded = [&](Floats number) __attribute__((always_inline)) {
        number = number * of_blocks[block];
        if constexpr (by_factor) number = number * m.factor;
        return std::bit_cast<Words>(to_bf16(number));
      };
#pragma GCC unroll 8
      for (int i = 0; i < 128; i += lanes) {
        const Words bits = rounded(simd::load_vector(numbers + i));
        const auto store = [&](std::uint8_t* to, Words byte) {
          _mm_storeu_si128(
              reinterpret_cast<__m128i*>(to + i % 64),
              _mm512_maskz_cvtepi32_epi8(every, std::bit_cast<__m512i>(byte)));
        };
        store(table.bytes[i / 64], bits >> 16);
        store(table.bytes[2 + i / 64], bits >> 24);
      }
      const std::uint32_t last = rounded(simd::broadcast(128.0f))[0];
      table.of_128[0] = static_cast<std::uint8_t>(last >> 16);
      table.of_128[1] = static_cast<std::uint8_t>(last >> 24);
    }
  }

  // With row `column` of codes, whose blocks have these tables.
  [[gnu::noinline]] float dot(std::int64_t column, const Table* tables) const {
    Sums sums;
    const std::int64_t k = coded.k, whole = k / step * step;
    const std::int64_t width = m.layout.columns;
    const std::int64_t before = m.layout.row(column).before % width;
    const std::uint8_t* const codes = coded.codes_of(column);
    for (std::int64_t i = 0, block = 0; i < whole; ++block) {
      const std::int64_t stop = std::min(whole, (block + 1) * width - before);
      const Registers table(tables[block]);
      for (; i < stop; i += step) {
        fetch_ahead(codes + i, step);
        __m512i numbers[4];
        table.look_up(codes + i, numbers);
        table.look_up(codes + i + step / 2, numbers + 2);
        sums.add(x + i, numbers);
      }
    }
    BFloat16 rest[step] = {};
    if (whole < k) host::decode_part(m, numbers_of(m), column, whole, k, rest);
    return sums.total(a + whole, rest, k - whole);
  }

  // `room` is for 4 rows of numbers: tables take two at most.
  template <int /*rows: 1*/, class F>
  void run(std::int64_t begin, std::int64_t end, BFloat16* room, const F& finish) const {
    auto* const tables = reinterpret_cast<Table*>(room);
    std::int64_t filled = -1;  // the scales of the tables
    bool plain = false;
    for (std::int64_t column = begin; column < end; ++column) {
      if (const std::int64_t of = m.layout.row(column).scale; of != filled) {
        filled = of;
        plain = are_plain(coded.scales_from(column), coded.blocks_of(column));
        if (plain) fill(column, tables);
      }
      if (plain)
        finish(0, column, dot(column, tables));
      else
        Decoded<BFloat16>{m, a, 0}.template run<1>(column, column + 1, room, finish);
    }
  }

 private:
  // Scales of a row begin with those of columns before the box.
  std::int64_t first_block(std::int64_t row) const {
    return m.layout.row(row).before / m.layout.columns;
  }

  // A table to look up in.
  struct Registers {
    __m512i bytes[4], low_of_128, high_of_128;

    [[gnu::always_inline]] explicit Registers(const Table& table)
        : low_of_128(_mm512_set1_epi8(static_cast<char>(table.of_128[0]))),
          high_of_128(_mm512_set1_epi8(static_cast<char>(table.of_128[1]))) {
#pragma GCC unroll 4
      for (int part = 0; part < 4; ++part)
        bytes[part] = _mm512_loadu_si512(table.bytes[part]);
    }

    // 64 codes as two registers of 32 neighbours.
    [[gnu::always_inline]] void look_up(const std::uint8_t* codes,
                                        __m512i* numbers) const {
      // Eight codes of the first half before eight of the second, as interleaving bytes
      // takes them apart.
      const __m512i all = _mm512_maskz_permutexvar_epi64(
          0xff, _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), _mm512_loadu_si512(codes));
      __m512i index = all;
      if constexpr (type == CodeType::int8)
        index = _mm512_maskz_abs_epi8(~__mmask64{0}, all);
      __m512i low = _mm512_permutex2var_epi8(bytes[0], index, bytes[1]);
      __m512i high = _mm512_permutex2var_epi8(bytes[2], index, bytes[3]);
      if constexpr (type == CodeType::int8) {
        const __mmask64 is_128 = _mm512_movepi8_mask(index);
        low = _mm512_mask_mov_epi8(low, is_128, low_of_128);
        high = _mm512_mask_mov_epi8(high, is_128, high_of_128);
      }
      constexpr int first_and_sign = 0x78;  // a ^ (b & c)
      high = _mm512_ternarylogic_epi32(
          high, all, _mm512_set1_epi8(static_cast<char>(0x80)), first_and_sign);
      numbers[0] = _mm512_unpacklo_epi8(low, high);
      numbers[1] = _mm512_unpackhi_epi8(low, high);
    }
  };
};

}  // namespace trireme::kernels::few_rows
#endif
