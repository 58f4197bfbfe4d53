// Codes E4M3 as registers of pairs of bf16, looked up by byte.
// SPDX-License-Identifier: Apache-2.0
// A block of scales that many codes share has a table of its 128 numbers that are not
// negative, rounded once for all rows of the block: 64 codes take a look-up for the low
// bytes, one for the high bytes, and their signs.
#pragma once

#include "kernels/gemm/code_pairs.hpp"

#if defined(TRIREME_PAIRS) && defined(__AVX512VBMI__)
#define TRIREME_E4M3_PAIRS
namespace trireme::kernels::few_rows {

// One row of A, with rows of codes one after the other.
struct E4m3InPairs {
  // Bytes of numbers: low ones of codes 0 to 63 and 64 to 127, then high ones.
  struct Table {
    std::uint8_t bytes[4][64];
  };
  static constexpr std::int64_t codes_of_register = 64;
  static constexpr Scales scales{};

  const CodedMatrix& m;
  const BFloat16* a;
  const BFloat16* x;  // its whole steps as registers of codes lie
  CodedRows coded{m};

  // The element of a step that the four registers hold at `place`: of 16 codes in a row
  // an even register has the first eight, the odd one behind it the others.
  static constexpr int element(int place) {
    const int part = place / 32, eight = place % 32 / 8, i = place % 8;
    return 64 * (part / 2) + 16 * eight + 8 * (part % 2) + i;
  }

  // Whether each step has one scale, and tables cost little beside the codes they serve.
  static bool takes(const CodedMatrix& m) {
    constexpr std::int64_t served = 512;  // codes of a table at least
    const ScaleLayout& layout = m.layout;
    return m.zeros.empty() && Steps<BFloat16>(m).first == DType::f32 &&
           m.factor == 1.0f && !layout.runs && most_scales_of_step(m) == 1 &&
           std::min(layout.columns, m.shape[1]) >= Pairs::step &&
           std::min(layout.columns, m.shape[1]) * std::min(layout.rows, m.shape[0]) >=
               served;
  }

  // The tables of the blocks of one row.
  void fill(std::int64_t row, Table* tables) const {
    const float* const numbers = numbers_of(m);
    const std::int64_t first = first_block(row), count = coded.blocks_of(row) - first;
    const float* const of_blocks = coded.scales_from(row) + first;
    for (std::int64_t block = 0; block < count; ++block) {
      const Floats scale = simd::broadcast(of_blocks[block]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const auto two = [&](int i) __attribute__((always_inline)) {
          const float* const from = numbers + 64 * half + 32 * i;
          return pairs_of(simd::load_vector(from) * scale,
                          simd::load_vector(from + lanes) * scale);
        };
        const __m512i words[] = {two(0), two(1)};
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
          const auto store = [&](std::uint8_t* to, __m512i of) {
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32 * i),
                                _mm512_maskz_cvtepi16_epi8(every_word, of));
          };
          store(tables[block].bytes[half], words[i]);
          store(tables[block].bytes[2 + half],
                _mm512_maskz_srli_epi16(every_word, words[i], 8));
        }
      }
    }
  }

  // `tables` are those of the blocks of row `column` of codes.
  [[gnu::noinline]] float dot(std::int64_t column, const Table* tables) const {
    Pairs::Sums sums = {};
    const std::int64_t k = coded.k, whole = k / Pairs::step * Pairs::step;
    const std::int64_t width = m.layout.columns;
    const std::int64_t before = m.layout.row(column).before % width;
    const std::uint8_t* const codes = coded.codes_of(column);
    for (std::int64_t i = 0, block = 0; i < whole; ++block) {
      const std::int64_t stop = std::min(whole, (block + 1) * width - before);
      __m512i table[4];
#pragma GCC unroll 4
      for (int part = 0; part < 4; ++part)
        table[part] = _mm512_loadu_si512(tables[block].bytes[part]);
      for (; i < stop; i += Pairs::step) {
        fetch_ahead(codes + i, Pairs::step);
        Pairs::add(sums, Pairs::read(x + i), look_up(table, codes + i));
      }
    }
    BFloat16 rest[Pairs::step] = {};
    if (whole < k) host::decode_part(m, numbers_of(m), column, whole, k, rest);
    return Pairs::total(in_place(sums), a + whole, rest, k - whole);
  }

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

  [[gnu::always_inline]] static Pairs::Loaded look_up(const __m512i (&table)[4],
                                                      const std::uint8_t* codes) {
    Pairs::Loaded pairs;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m512i all = _mm512_loadu_si512(codes + half * codes_of_register);
      const __m512i low = _mm512_permutex2var_epi8(table[0], all, table[1]);
      constexpr int first_and_sign = 0x78;  // a ^ (b & c)
      const __m512i high = _mm512_ternarylogic_epi32(
          _mm512_permutex2var_epi8(table[2], all, table[3]), all,
          _mm512_set1_epi8(static_cast<char>(0x80)), first_and_sign);
      pairs.of[2 * half] = _mm512_unpacklo_epi8(low, high);
      pairs.of[2 * half + 1] = _mm512_unpackhi_epi8(low, high);
    }
    return pairs;
  }

  // Sums in the lanes that they have where registers hold a step in its order.
  static Pairs::Sums in_place(const Pairs::Sums& x) {
    Pairs::Sums y;
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m512 first = x.of[2 * half], second = x.of[2 * half + 1];
      y.of[2 * half] = __builtin_shufflevector(first, second, 0, 1, 2, 3, 16, 17, 18, 19,
                                               4, 5, 6, 7, 20, 21, 22, 23);
      y.of[2 * half + 1] = __builtin_shufflevector(
          first, second, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    }
    return y;
  }
};

}  // namespace trireme::kernels::few_rows
#endif
