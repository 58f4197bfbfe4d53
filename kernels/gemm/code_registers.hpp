// Codes as registers of numbers, for products that read codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <type_traits>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/coded_matrix.hpp"
#include "kernels/gemm/few_rows_loop.hpp"

namespace trireme::kernels::few_rows {

using Words = simd::Vector<std::uint32_t>;
constexpr int lanes = simd::lanes<float>;

#if defined(__AVX512F__)
// Instructions with a mask that leaves out nothing: GCC 12 warns of those without one,
// whose lanes that are left out have no value.
constexpr __mmask16 every = 0xffff;
#endif

using Integers = simd::Vector<std::int32_t>;

// A register of bytes, each a word.
[[gnu::always_inline]] inline Words widen(const std::uint8_t* from) {
#if defined(__AVX512F__)
  return std::bit_cast<Words>(_mm512_maskz_cvtepu8_epi32(
      every, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
  Words words;
  for (int i = 0; i < lanes; ++i) words[i] = from[i];
  return words;
#endif
}

// The same of signed bytes.
[[gnu::always_inline]] inline Integers widen_signed(const std::uint8_t* from) {
#if defined(__AVX512F__)
  return std::bit_cast<Integers>(_mm512_maskz_cvtepi8_epi32(
      every, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
  return std::bit_cast<Integers>(widen(from) << 24) >> 24;
#endif
}

// The same as numbers.
[[gnu::always_inline]] inline Floats integers(const std::uint8_t* from) {
  return __builtin_convertvector(widen_signed(from), Floats);
}

// The same of E4M3, each number divided by `e4m3_unit`: its bits where f32 has them. What
// is subnormal is so in f32 too. NaN is taken for 480.
inline constexpr float e4m3_unit = 0x1p120f;
[[gnu::always_inline]] inline Floats e4m3_parts(const std::uint8_t* from) {
  return std::bit_cast<Floats>(std::bit_cast<Words>(widen_signed(from) << 20) &
                               0x87f00000u);
}

// Rounded to bf16, ties to even, of numbers that are 0 or normal and finite.
[[gnu::always_inline]] inline Floats to_bf16(Floats x) {
#if defined(__AVX512BF16__)
  const auto halves =
      std::bit_cast<__m256i>(_mm512_cvtneps_pbh(std::bit_cast<__m512>(x)));
  return std::bit_cast<Floats>(
      _mm512_maskz_slli_epi32(every, _mm512_maskz_cvtepu16_epi32(every, halves), 16));
#elif defined(__AVX512VNNI__)
  // 0x7fff and bit 16 in one addition, of products of bytes: 255 * 127 + 255 + 127, and
  // the bit by 1.
  constexpr int both = 0xea;  // (a & b) | c
  const auto bits = std::bit_cast<__m512i>(x);
  const __m512i addends = _mm512_ternarylogic_epi32(bits, _mm512_set1_epi32(0x0001'0000),
                                                    _mm512_set1_epi32(0x7f00'ffff), both);
  return std::bit_cast<Floats>(std::bit_cast<Words>(_mm512_dpbusd_epi32(
                                   bits, addends, _mm512_set1_epi32(0x0101'017f))) &
                               0xffff0000u);
#else
  const auto bits = std::bit_cast<Words>(x);
  return std::bit_cast<Floats>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
#endif
}

[[gnu::always_inline]] inline Floats to_f16(Floats x) {
#if defined(__AVX512F__)
  constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return std::bit_cast<Floats>(_mm512_maskz_cvtph_ps(
      every, _mm512_maskz_cvtps_ph(every, std::bit_cast<__m512>(x), nearest)));
#elif defined(__AVX2__) && defined(__F16C__)
  constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return std::bit_cast<Floats>(
      _mm256_cvtph_ps(_mm256_cvtps_ph(std::bit_cast<__m256>(x), nearest)));
#else
  for (int i = 0; i < lanes; ++i) x[i] = load(round_to_half(x[i]));
  return x;
#endif
}

// How numbers of codes are rounded on their way to T: see CodedMatrix.
template <class T>
struct Steps {
  DType first;  // before the factor; f32: not at all
  float factor;
  bool last;  // to T, which is bf16

  explicit Steps(const CodedMatrix& m)
      : first(m.rounding), factor(m.factor), last(std::is_same_v<T, BFloat16>) {
    if (last && first == DType::bf16 && factor == 1.0f) first = DType::f32;
  }
};

// The element of a step that a pair of registers holds at `place` where they hold what
// those of numbers do (few_rows::load_two).
template <class T>
constexpr int usual_element(int place) {
  const bool apart = std::is_same_v<T, BFloat16>;  // even and odd elements
  return apart ? place % lanes * 2 + place / lanes : place;
}
constexpr int even_and_odd_element(int place) { return usual_element<BFloat16>(place); }

// Which scales a way to numbers takes.
struct Scales {
  bool powers = false;  // powers of two alone
  float below = 0x1p80f;
};

// Whether these are powers of two, or 0.
inline bool are_powers(const float* numbers, std::int64_t count) {
  std::uint32_t digits = 0;
  for (std::int64_t i = 0; i < count; ++i)
    digits |= std::bit_cast<std::uint32_t>(numbers[i]) & 0x7fffffu;
  return digits == 0;
}

// Codes without zero points, whose numbers are rounded once, to T.
template <class T>
bool is_simple(const CodedMatrix& m) {
  return m.zeros.empty() && Steps<T>(m).first == DType::f32 && m.factor == 1.0f;
}

// Numbers of a book, scaled, and not yet rounded to T. simple: see is_simple().
template <class T, bool simple>
[[gnu::always_inline]] inline Floats unrounded(Floats x, const Steps<T>& steps,
                                               float scale, float zero) {
  if constexpr (simple) {
    x = x * scale;
  } else {
    x = (x - zero) * scale;
    if (steps.first == DType::bf16) x = to_bf16(x);
    if (steps.first == DType::f16) x = to_f16(x);
    x = x * steps.factor;
  }
  return x;
}
template <class T, bool simple>
[[gnu::always_inline]] inline Floats scaled(Floats x, const Steps<T>& steps, float scale,
                                            float zero) {
  const Floats y = unrounded<T, simple>(x, steps, scale, zero);
  return std::is_same_v<T, BFloat16> ? to_bf16(y) : y;
}

// 16 numbers for each block of scales, looked up. A byte has an even place in its high
// bits and the odd one behind it in its low bits: the two registers are those.
template <class T, bool simple>
struct FourBits {
  static constexpr int most_steps = 1;  // that are read at once
  static constexpr std::int64_t codes_of_byte = 2;
  static constexpr int element(int place) { return even_and_odd_element(place); }
  using WithoutTies = void;  // a faster way to bf16 for some rows
  static constexpr Scales scales{};
  static constexpr int parts = 16 / lanes;
  Floats table[parts];

  // What all rows share.
  struct Shared {
    const CodedMatrix& m;
    Steps<T> steps;
    explicit Shared(const CodedMatrix& matrix) : m(matrix), steps(matrix) {}
  };
  static bool takes(const CodedMatrix& m) { return !simple || is_simple<T>(m); }
  [[gnu::always_inline]] void set(const Shared& shared, float scale, float zero) {
#pragma GCC unroll 4
    for (int i = 0; i < parts; ++i)
      table[i] = scaled<T, simple>(simd::load_vector(shared.m.book.numbers + i * lanes),
                                   shared.steps, scale, zero);
  }
  [[gnu::always_inline]] Floats look_up(Words codes) const {
#if defined(__AVX512F__)
    return std::bit_cast<Floats>(_mm512_maskz_permutexvar_ps(
        every, std::bit_cast<__m512i>(codes), std::bit_cast<__m512>(table[0])));
#else
    Floats x;
    for (int i = 0; i < lanes; ++i) {
      const unsigned code = codes[i] & 0xfu;
      x[i] = table[code / lanes][code % lanes];
    }
    return x;
#endif
  }
  // Elements [i, i + steps * step) of a row of codes.
  template <int steps>
  [[gnu::always_inline]] void load(const Shared& /*shared*/, const std::uint8_t* row,
                                   std::int64_t i, TwoRegisters* out) const {
    const Words two = widen(row + i / 2);
    *out = {look_up(two >> 4), look_up(two)};  // of which the low four bits count
  }
};

// Bytes of one scale, without zero points, rounded once, to T. by_factor: see
// CodedMatrix.
template <class T, CodeType type, bool by_factor>
struct Bytes {
#if defined(__AVX512BF16__)
  static constexpr bool even_and_odd = std::is_same_v<T, BFloat16>;
#else
  static constexpr bool even_and_odd = false;
#endif
  static constexpr int most_steps = 1;
  static constexpr std::int64_t codes_of_byte = 1;
  static constexpr int element(int place) {
    return even_and_odd ? even_and_odd_element(place) : place;
  }
  using WithoutTies = void;
  static constexpr Scales scales{.below = type == CodeType::e4m3 ? 0x1p7f : 0x1p80f};
  Floats scale, factor;

  using Shared = Steps<T>;
  static bool takes(const CodedMatrix& m) {
    return m.zeros.empty() && Steps<T>(m).first == DType::f32 &&
           (by_factor ? type == CodeType::int8 : m.factor == 1.0f);
  }
  [[gnu::always_inline]] void set(const Shared& steps, float of_block, float /*zero*/) {
    // A power of two changes no digit: the product is rounded as that of the number.
    scale = simd::broadcast(type == CodeType::int8 ? of_block : of_block * e4m3_unit);
    factor = simd::broadcast(steps.factor);
  }
  [[gnu::always_inline]] Floats numbers(const std::uint8_t* from) const {
    const Floats x = (type == CodeType::int8 ? integers(from) : e4m3_parts(from)) * scale;
    return by_factor ? x * factor : x;
  }
  template <int steps>
  [[gnu::always_inline]] void load(const Shared& /*shared*/, const std::uint8_t* row,
                                   std::int64_t i, TwoRegisters* out) const {
    const Floats first = numbers(row + i), second = numbers(row + i + lanes);
    if constexpr (std::is_same_v<T, float>) {
      *out = {first, second};
      return;
    }
#if defined(__AVX512BF16__)
    const auto words = std::bit_cast<Words>(
        _mm512_cvtne2ps_pbh(std::bit_cast<__m512>(second), std::bit_cast<__m512>(first)));
    *out = {std::bit_cast<Floats>(words << 16),
            std::bit_cast<Floats>(words & 0xffff0000u)};
#else
    *out = {to_bf16(first), to_bf16(second)};
#endif
  }
};

}  // namespace trireme::kernels::few_rows
