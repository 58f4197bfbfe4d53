// Codes as registers of 256 bits: bytes of numbers are looked up, bytes of codes spread.
// SPDX-License-Identifier: Apache-2.0
// A permutation of 32 bytes takes half the time of one of 8 floats, and its indices are
// bytes, as codes are. What registers hold is not in the order of a row: see element().
#pragma once

#include "kernels/gemm/code_registers.hpp"

#if defined(__AVX2__) && !defined(__AVX512F__)
#define TRIREME_CODE_TABLES
namespace trireme::kernels::few_rows {

// The highest `bytes` bytes of 16 numbers, one after the other.
template <int bytes>
struct ByteTables {
  static_assert(bytes == 2 || bytes == 4);
  __m256i of[bytes];  // each in both halves

  // Numbers 0 to 3 and 8 to 11.
  [[gnu::always_inline]] static Floats two_fours(const float* from) {
    return std::bit_cast<Floats>(_mm256_insertf128_ps(
        _mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from + 8), 1));
  }
  // even: numbers 0 to 3 and 8 to 11; odd: 4 to 7 and 12 to 15.
  [[gnu::always_inline]] void set(Floats even, Floats odd) {
    const __m256i by_byte =
        _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                         0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m256i a = _mm256_shuffle_epi8(std::bit_cast<__m256i>(even), by_byte);
    const __m256i b = _mm256_shuffle_epi8(std::bit_cast<__m256i>(odd), by_byte);
    const __m256i high = _mm256_unpackhi_epi32(a, b);
    of[bytes - 2] = _mm256_permute4x64_epi64(high, 0b10'00'10'00);
    of[bytes - 1] = _mm256_permute4x64_epi64(high, 0b11'01'11'01);
    if constexpr (bytes == 4) {
      const __m256i low = _mm256_unpacklo_epi32(a, b);
      of[0] = _mm256_permute4x64_epi64(low, 0b10'00'10'00);
      of[1] = _mm256_permute4x64_epi64(low, 0b11'01'11'01);
    }
  }

  // The element of a step that a pair of registers holds at `place`: even places of the
  // row in the lower halves, odd ones in the upper.
  static constexpr int element(int place) {
    const int part = place / lanes, upper = place % lanes / 4, i = place % 4;
    return 2 * (bytes == 2 ? 2 * i + part : 4 * part + i) + upper;
  }
  // The numbers of one or two steps of codes.
  template <int steps>
  [[gnu::always_inline]] void load(const std::uint8_t* from, TwoRegisters* out) const {
    __m256i codes;
    if constexpr (steps == 2) {
      codes = _mm256_broadcastsi128_si256(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    } else {
      std::int64_t eight = 0;
      std::memcpy(&eight, from, sizeof eight);
      codes = _mm256_set1_epi64x(eight);
    }
    codes = _mm256_and_si256(
        _mm256_srlv_epi32(codes, _mm256_setr_epi32(4, 4, 4, 4, 0, 0, 0, 0)),
        _mm256_set1_epi8(0xf));
    __m256i found[bytes];
#pragma GCC unroll 4
    for (int i = 0; i < bytes; ++i) found[i] = _mm256_shuffle_epi8(of[i], codes);
#pragma GCC unroll 2
    for (int s = 0; s < steps; ++s) {
      const auto together = [s](__m256i a, __m256i b) {
        return s == 0 ? _mm256_unpacklo_epi8(a, b) : _mm256_unpackhi_epi8(a, b);
      };
      const __m256i high = together(found[bytes - 2], found[bytes - 1]);
      if constexpr (bytes == 2) {
        const auto words = std::bit_cast<Words>(high);
        out[s] = {std::bit_cast<Floats>(words << 16),
                  std::bit_cast<Floats>(words & 0xffff0000u)};
      } else {
        const __m256i low = together(found[0], found[1]);
        out[s] = {std::bit_cast<Floats>(_mm256_unpacklo_epi16(low, high)),
                  std::bit_cast<Floats>(_mm256_unpackhi_epi16(low, high))};
      }
    }
  }
};

// Tables of the numbers of each block of scales, which may have zero points and be
// rounded on their way.
template <class T, bool simple>
struct ScaledTables {
  static constexpr int bytes = std::is_same_v<T, BFloat16> ? 2 : 4;
  static constexpr int most_steps = 2;
  static constexpr std::int64_t codes_of_byte = 2;
  static constexpr int element(int place) { return ByteTables<bytes>::element(place); }
  using WithoutTies = void;
  static constexpr Scales scales{};
  ByteTables<bytes> tables;

  struct Shared {
    Steps<T> steps;
    Floats book[2];
    explicit Shared(const CodedMatrix& m)
        : steps(m),
          book{ByteTables<bytes>::two_fours(m.book.numbers),
               ByteTables<bytes>::two_fours(m.book.numbers + 4)} {}
  };
  static bool takes(const CodedMatrix& m) { return !simple || is_simple<T>(m); }
  [[gnu::always_inline]] void set(const Shared& shared, float scale, float zero) {
    Floats x[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i)
      x[i] = scaled<T, simple>(shared.book[i], shared.steps, scale, zero);
    tables.set(x[0], x[1]);
  }
  template <int steps>
  [[gnu::always_inline]] void load(const Shared& /*shared*/, const std::uint8_t* row,
                                   std::int64_t i, TwoRegisters* out) const {
    tables.template load<steps>(row + i / 2, out);
  }
};

// A table of the book: what is found is multiplied by the block's scale. To bf16 only
// where no product has to be rounded.
template <class T, int bytes>
struct BookTables {
  static constexpr int most_steps = 2;
  static constexpr std::int64_t codes_of_byte = 2;
  static constexpr int element(int place) { return ByteTables<bytes>::element(place); }
  using WithoutTies = void;
  static constexpr Scales scales{.powers = std::is_same_v<T, BFloat16>};
  Floats scale;

  struct Shared {
    ByteTables<bytes> tables;
    explicit Shared(const CodedMatrix& m) {
      tables.set(ByteTables<bytes>::two_fours(m.book.numbers),
                 ByteTables<bytes>::two_fours(m.book.numbers + 4));
    }
  };
  static bool takes(const CodedMatrix& m) {
    if (!is_simple<T>(m)) return false;
    for (const float number : m.book.numbers)
      if (bytes == 2 && (std::bit_cast<std::uint32_t>(number) & 0xffffu) != 0)
        return false;
    return !scales.powers || are_powers(m.scales.data<float>(), 1);
  }
  [[gnu::always_inline]] void set(const Shared& /*shared*/, float of_block,
                                  float /*zero*/) {
    scale = simd::broadcast(of_block);
  }
  template <int steps>
  [[gnu::always_inline]] void load(const Shared& shared, const std::uint8_t* row,
                                   std::int64_t i, TwoRegisters* out) const {
    shared.tables.template load<steps>(row + i / 2, out);
#pragma GCC unroll 2
    for (int s = 0; s < steps; ++s) {
      out[s].first = out[s].first * scale;
      out[s].second = out[s].second * scale;
    }
  }
};

// Bytes of one scale, without zero points, rounded once, to T. An integer is the highest
// byte of a word, 2^24 times as large. The bits of a number E4M3, moved to where f32 has
// its sign, exponent and fraction, are one 2^120 times smaller, also where it is
// subnormal. ties: a number may lie in the middle of two of bf16.
template <class T, CodeType type, bool by_factor, bool ties = true>
struct SpreadBytes {
  static constexpr bool to_bf16_too = std::is_same_v<T, BFloat16>;
  static constexpr int most_steps = 1;
  static constexpr std::int64_t codes_of_byte = 1;
  static constexpr int element(int place) { return usual_element<T>(place); }
  using WithoutTies = std::conditional_t<to_bf16_too && ties,
                                         SpreadBytes<T, type, by_factor, false>, void>;
  static constexpr Scales scales{.below = type == CodeType::e4m3 ? 0x1p7f : 0x1p80f};
  Floats scale;

  struct Shared {
    Floats factor;
    explicit Shared(const CodedMatrix& m) : factor(simd::broadcast(m.factor)) {}
  };
  static bool takes(const CodedMatrix& m) {
    return m.zeros.empty() && Steps<T>(m).first == DType::f32 &&
           (by_factor ? type == CodeType::int8 : m.factor == 1.0f);
  }
  // Whether a number of a row with these scales may lie in the middle of two of bf16, or
  // to find out does not pay. Of E4M3 there are eight but for powers of two.
  static bool may_tie(const CodedMatrix& m, const float* of_blocks, std::int64_t blocks) {
    constexpr std::int64_t worth = 512;  // numbers that share a scale
    constexpr bool bytes = type == CodeType::int8;
    if (bytes && blocks * worth > m.shape[1]) return true;
    const Floats factor = simd::broadcast(m.factor);
    Floats first;
    for (int i = 0; i < lanes; ++i) first[i] = static_cast<float>(bytes ? i + 1 : i + 8);
    Words found{};
    for (std::int64_t block = 0; block < blocks; ++block)
      for (int n = 0; n < (bytes ? 128 : lanes); n += lanes) {
        Floats x = (first + static_cast<float>(n)) * of_blocks[block];
        if constexpr (by_factor) x = x * factor;
        found |= std::bit_cast<Words>((std::bit_cast<Words>(x) & 0xffffu) == 0x8000u);
      }
    return _mm256_testz_si256(std::bit_cast<__m256i>(found),
                              std::bit_cast<__m256i>(found)) == 0;
  }
  [[gnu::always_inline]] void set(const Shared& /*shared*/, float of_block,
                                  float /*zero*/) {
    // A power of two changes no digit: the product is rounded as that of the number.
    scale = simd::broadcast(of_block * (type == CodeType::int8 ? 0x1p-24f : 0x1p120f));
  }
  [[gnu::always_inline]] Floats rounded(const Shared& shared, Floats x) const {
    x = x * scale;
    if constexpr (by_factor) x = x * shared.factor;
    if constexpr (!to_bf16_too) return x;
    if constexpr (ties) return to_bf16(x);
    return std::bit_cast<Floats>((std::bit_cast<Words>(x) + 0x8000u) & 0xffff0000u);
  }
  // Eight bytes of 16, the elements of one register, each in the highest byte of a word.
  template <int part>
  [[gnu::always_inline]] static __m256i words_of(__m256i codes) {
    constexpr auto at = [](int lane) {
      return (element(part * lanes + lane) << 24) | 0x808080;
    };
    return _mm256_shuffle_epi8(
        codes, _mm256_setr_epi32(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)));
  }
  [[gnu::always_inline]] static Floats number_of(__m256i words) {
    if constexpr (type == CodeType::int8)
      return std::bit_cast<Floats>(_mm256_cvtepi32_ps(words));
    constexpr int sign_exponent_and_fraction = static_cast<int>(0x87f00000u);
    return std::bit_cast<Floats>(_mm256_and_si256(
        _mm256_srai_epi32(words, 4), _mm256_set1_epi32(sign_exponent_and_fraction)));
  }
  template <int steps>
  [[gnu::always_inline]] void load(const Shared& shared, const std::uint8_t* row,
                                   std::int64_t i, TwoRegisters* out) const {
    const __m256i codes = _mm256_broadcastsi128_si256(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i)));
    *out = {rounded(shared, number_of(words_of<0>(codes))),
            rounded(shared, number_of(words_of<1>(codes)))};
  }
};

}  // namespace trireme::kernels::few_rows
#endif
