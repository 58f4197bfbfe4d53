// Codes as registers of pairs of bf16, for processors that multiply these.
// SPDX-License-Identifier: Apache-2.0
// The pairs, and the order of their sums, are those of products of numbers.
#pragma once

#include "kernels/gemm/ahead.hpp"
#include "kernels/gemm/coded_rows.hpp"
#include "kernels/gemm/pairs.hpp"

#if defined(TRIREME_PAIRS)
namespace trireme::kernels::few_rows {

constexpr __mmask32 every_word = ~__mmask32{0};

// Two registers of f32, the first in front, rounded to bf16 as to_bf16() does.
[[gnu::always_inline]] inline __m512i pairs_of(Floats first, Floats second) {
  return std::bit_cast<__m512i>(
      _mm512_cvtne2ps_pbh(std::bit_cast<__m512>(second), std::bit_cast<__m512>(first)));
}

// How many scales a step has at most, each of as many elements as the others.
inline int most_scales_of_step(const CodedMatrix& m) {
  if (scales_end_with(m, Pairs::step)) return 1;
  return scales_end_with(m, Pairs::step / 2) ? 2 : 4;
}

// The scales of a row, step by step: `count` of each.
template <int count>
class StepScales {
 public:
  float scale[count], zero[count];

  StepScales(const CodedRows& coded, std::int64_t row)
      : scales_(coded.scales_from(row)),
        zeros_(coded.zeros_from(row)),
        width_(coded.m.layout.columns) {
    const std::int64_t before = coded.m.layout.row(row).before;
    block_ = before / width_;
    left_ = width_ - before % width_;
  }
  [[gnu::always_inline]] void next() {
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i) {
      scale[i] = scales_[block_];
      zero[i] = zeros_ == nullptr ? 0.0f : zeros_[block_];
      left_ -= Pairs::step / count;
      if (left_ > 0) continue;
      left_ = width_;
      ++block_;
    }
  }

 private:
  const float *scales_, *zeros_;
  std::int64_t width_, left_, block_;  // columns left of the block
};

// A register of codes, of which a word of 64 bits has 16 neighbours. Each of four
// registers of a step takes four of them, in their order: a byte has an even place in its
// high bits. What is found in a table of one scale has it twice, so that the fifth bit of
// an index, which is another code's, does not count.
template <bool simple, int scales_of_step>
struct FourBitPairs {
  static constexpr std::int64_t codes_of_byte = 2;
  static constexpr bool in_order = false;
  static constexpr Scales scales{};
  // The element of a step that the four registers hold at `place`.
  static constexpr int element(int place) {
    const int part = place / 32, word = place % 32 / 4, i = place % 4;
    return 16 * word + 4 * part + i;
  }
  static bool takes(const CodedMatrix& m) { return !simple || is_simple<BFloat16>(m); }

  struct Shared {
    Steps<BFloat16> steps;
    Floats book;
    __m512i begins, scale;  // of each word: bits before its code; 16 times its scale
    explicit Shared(const CodedMatrix& m)
        : steps(m), book(simd::load_vector(m.book.numbers)) {
      typedef std::uint16_t Each __attribute__((vector_size(64)));
      Each bits{}, number{};
      for (int i = 0; i < 32; ++i) {
        bits[i] =
            static_cast<std::uint16_t>(i % 2 == 0 ? 4 * (i % 4) + 4 : 8 * (i % 4 / 2));
        number[i] = static_cast<std::uint16_t>(16 * (i * scales_of_step / 32));
      }
      begins = std::bit_cast<__m512i>(bits);
      scale = std::bit_cast<__m512i>(number);
    }
  };

  [[gnu::always_inline]] static Pairs::Loaded load(const Shared& shared,
                                                   const std::uint8_t* codes,
                                                   const StepScales<scales_of_step>& of) {
    const auto numbers = [&](int i) __attribute__((always_inline)) {
      return unrounded<BFloat16, simple>(shared.book, shared.steps, of.scale[i],
                                         of.zero[i]);
    };
    constexpr int last = scales_of_step - 1;
    const __m512i table = pairs_of(numbers(0), numbers(std::min(1, last)));
    const __m512i upper =
        last > 1 ? pairs_of(numbers(std::min(2, last)), numbers(last)) : table;
    const __m512i all = _mm512_loadu_si512(codes);
    Pairs::Loaded pairs;
#pragma GCC unroll 4
    for (int part = 0; part < Pairs::registers; ++part) {
      __m512i index = code_of_each_word(all, shared.begins, part);
      if constexpr (last > 0)
        index =
            _mm512_or_si512(_mm512_and_si512(index, _mm512_set1_epi16(15)), shared.scale);
      pairs.of[part] = last > 1
                           ? _mm512_permutex2var_epi16(table, index, upper)
                           : _mm512_maskz_permutexvar_epi16(every_word, index, table);
    }
    return pairs;
  }

  // The code of each word of `part`, in its lowest bits.
  [[gnu::always_inline]] static __m512i code_of_each_word(__m512i codes, __m512i begins,
                                                          int part) {
    const __m512i from =
        _mm512_add_epi16(begins, _mm512_set1_epi16(static_cast<short>(16 * part)));
#if defined(__AVX512VBMI__)
    return _mm512_maskz_multishift_epi64_epi8(~__mmask64{0}, from, codes);
#else
    // The byte of each code, of 16 in a quarter of the register.
    const __m512i place = _mm512_add_epi16(
        _mm512_srli_epi16(from, 3), _mm512_set4_epi32(0x0008'0008, 0x0008'0008, 0, 0));
    return _mm512_srlv_epi16(_mm512_shuffle_epi8(codes, place),
                             _mm512_and_si512(from, _mm512_set1_epi16(7)));
#endif
  }

  // Sums in the lanes that they have where registers hold a step in its order.
  static Pairs::Sums in_place(const Pairs::Sums& x) {
    return {part_in_place<0>(x), part_in_place<1>(x), part_in_place<2>(x),
            part_in_place<3>(x)};
  }

 private:
  // Two sums are neighbours: those of four of a word's 16 codes.
  template <int part>
  static __m512 part_in_place(const Pairs::Sums& x) {
    typedef double Twos __attribute__((vector_size(64)));
    const auto join = [&](int first, int second) {
      return __builtin_shufflevector(
          std::bit_cast<Twos>(x.of[first]), std::bit_cast<Twos>(x.of[second]), 2 * part,
          2 * part + 8, 2 * part + 1, 2 * part + 9, 0, 0, 0, 0);
    };
    return std::bit_cast<__m512>(
        __builtin_shufflevector(join(0, 1), join(2, 3), 0, 1, 8, 9, 2, 3, 10, 11));
  }
};

// Bytes without zero points, rounded once, to bf16.
template <CodeType type, bool by_factor, int scales_of_step>
struct BytePairs {
  using Numbers = Bytes<BFloat16, type, by_factor>;
  static constexpr std::int64_t codes_of_byte = 1;
  static constexpr bool in_order = true;
  static constexpr Scales scales = Numbers::scales;
  static bool takes(const CodedMatrix& m) { return Numbers::takes(m); }

  struct Shared {
    Steps<BFloat16> steps;
    explicit Shared(const CodedMatrix& m) : steps(m) {}
  };
  [[gnu::always_inline]] static Pairs::Loaded load(const Shared& shared,
                                                   const std::uint8_t* codes,
                                                   const StepScales<scales_of_step>& of) {
    Pairs::Loaded pairs;
#pragma GCC unroll 4
    for (int part = 0; part < Pairs::registers; ++part) {
      Numbers bytes;
      bytes.set(shared.steps, of.scale[part * scales_of_step / Pairs::registers], 0);
      const std::uint8_t* const from = codes + part * Pairs::in_register;
      pairs.of[part] = pairs_of(bytes.numbers(from), bytes.numbers(from + lanes));
    }
    return pairs;
  }
  static Pairs::Sums in_place(const Pairs::Sums& x) { return x; }
};

// One row of A, with rows of codes one after the other: the processor sees where they go.
template <class Code, int scales_of_step>
struct InPairs {
  const CodedMatrix& m;
  const BFloat16* a;
  const BFloat16* x;  // its whole steps as registers of codes lie
  CodedRows coded{m};

  [[gnu::noinline]] float dot(std::int64_t column) const {
    Pairs::Sums sums = {};
    const std::int64_t k = coded.k, whole = k / Pairs::step * Pairs::step;
    const typename Code::Shared shared(m);
    const std::uint8_t* codes = coded.codes_of(column);
    StepScales<scales_of_step> scales(coded, column);
    for (std::int64_t i = 0; i < whole; i += Pairs::step) {
      constexpr std::int64_t bytes = Pairs::step / Code::codes_of_byte;
      scales.next();
      fetch_ahead(codes, bytes);
      Pairs::add(sums, Pairs::read(x + i), Code::load(shared, codes, scales));
      codes += bytes;
    }
    BFloat16 rest[Pairs::step] = {};
    if (whole < k) host::decode_part(m, numbers_of(m), column, whole, k, rest);
    return Pairs::total(Code::in_place(sums), a + whole, rest, k - whole);
  }

  template <int /*rows: 1*/, class F>
  void run(std::int64_t begin, std::int64_t end, BFloat16* room, const F& finish) const {
    for (std::int64_t column = begin; column < end; ++column) {
      if (coded.is_plain(column, Code::scales))
        finish(0, column, dot(column));
      else
        Decoded<BFloat16>{m, a, 0}.template run<1>(column, column + 1, room, finish);
    }
  }
};

}  // namespace trireme::kernels::few_rows
#endif
