// How products with independent rows read, multiply and add the numbers of each type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include "base/dtype.hpp"
#include "kernels/host/simd.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels {

// A register holds `step` elements of a row: a word of the size of a sum for each lane,
// of one element or of two of bf16. `spread` gives the word at `from` to every lane.
template <class T>
struct RowTerms {
  using A = Accumulator<T>;
  using Loaded = simd::Vector<A>;
  static constexpr int registers = 1;  // that Loaded takes
  static constexpr std::int64_t step = simd::lanes<A>;
  [[gnu::always_inline]] static Loaded read(const T* from) {
    if constexpr (std::is_same_v<T, Float16>) {
      Loaded all;
#pragma GCC unroll 16
      for (int i = 0; i < simd::lanes<A>; ++i) all[i] = load(from[i]);
      return all;
    } else {
      return simd::load_vector(from);
    }
  }
  [[gnu::always_inline]] static Loaded spread(const T* from) {
    return simd::broadcast<A>(load(*from));
  }
  [[gnu::always_inline]] static Loaded add(Loaded sums, Loaded a, Loaded b) {
    return simd::multiply_add<A>(a, b, sums);
  }
};

#ifdef __AVX512BF16__
template <>
struct RowTerms<BFloat16> {
  using Loaded = __m512i;
  static constexpr int registers = 1;
  static constexpr std::int64_t step = 32;
  [[gnu::always_inline]] static Loaded read(const BFloat16* from) {
    return _mm512_loadu_si512(from);
  }
  [[gnu::always_inline]] static Loaded spread(const BFloat16* from) {
    int word = 0;
    std::memcpy(&word, from, sizeof word);
    return _mm512_set1_epi32(word);
  }
  [[gnu::always_inline]] static simd::Vector<float> add(simd::Vector<float> sums,
                                                        Loaded a, Loaded b) {
    return std::bit_cast<simd::Vector<float>>(
        _mm512_dpbf16_ps(std::bit_cast<__m512>(sums), std::bit_cast<__m512bh>(a),
                         std::bit_cast<__m512bh>(b)));
  }
};
#else
// Even and odd places apart: a shift and a mask make each of them f32.
template <>
struct RowTerms<BFloat16> {
  typedef std::uint32_t Words __attribute__((vector_size(simd::register_bytes)));
  struct Loaded {
    simd::Vector<float> even, odd;
  };
  static constexpr int registers = 2;
  static constexpr std::int64_t step = 2 * simd::lanes<float>;
  [[gnu::always_inline]] static Loaded split(Words words) {
    return {std::bit_cast<simd::Vector<float>>(words << 16),
            std::bit_cast<simd::Vector<float>>(words & 0xffff0000u)};
  }
  [[gnu::always_inline]] static Loaded read(const BFloat16* from) {
    Words words;
    std::memcpy(&words, from, sizeof words);
    return split(words);
  }
  [[gnu::always_inline]] static Loaded spread(const BFloat16* from) {
    std::uint32_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return split(Words{} + word);
  }
  [[gnu::always_inline]] static simd::Vector<float> add(simd::Vector<float> sums,
                                                        Loaded a, Loaded b) {
    return simd::multiply_add<float>(a.odd, b.odd,
                                     simd::multiply_add<float>(a.even, b.even, sums));
  }
};
#endif

}  // namespace trireme::kernels
