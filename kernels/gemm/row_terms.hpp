// How products with independent rows read, multiply and add the numbers of each type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "base/dtype.hpp"
#include "kernels/host/simd.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels {

// A register that holds the `words` words at `from` again and again. Words have the size
// of A.
template <class A, int words>
[[gnu::always_inline]] inline simd::Vector<A> repeat(const void* from) {
  static_assert(words == 1 || sizeof(A) == sizeof(float));
  if constexpr (words <= 2) {
    using Group = std::conditional_t<words == 1, A, double>;
    Group group;
    std::memcpy(&group, from, sizeof group);
    return std::bit_cast<simd::Vector<A>>(simd::broadcast<Group>(group));
  } else {
#if defined(__AVX512F__)
    // With a mask that leaves out nothing: GCC 12 warns of the form without one.
    return std::bit_cast<simd::Vector<A>>(_mm512_maskz_broadcast_f32x4(
        0xffff, _mm_loadu_ps(static_cast<const float*>(from))));
#elif defined(__AVX__)
    return std::bit_cast<simd::Vector<A>>(
        _mm256_broadcast_ps(static_cast<const __m128*>(from)));
#else
    return simd::load_vector(static_cast<const A*>(from));
#endif
  }
}

// A register holds `step` elements of a row: a word of the size of a sum for each lane,
// of one element or of two of bf16. `spread` gives the `words` words at `from` to the
// lanes in turn, for `vectors` registers of rows.
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
  template <int words, int vectors>
  [[gnu::always_inline]] static Loaded spread(const T* from) {
    if constexpr (std::is_same_v<T, Float16>)
      return simd::broadcast<A>(load(*from));
    else
      return repeat<A, words>(from);
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
  template <int words, int vectors>
  [[gnu::always_inline]] static Loaded spread(const BFloat16* from) {
    if constexpr (words > 1) return std::bit_cast<__m512i>(repeat<float, words>(from));
    int word = 0;  // which the instruction spreads itself
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
  template <int words, int vectors>
  [[gnu::always_inline]] static Loaded spread(const BFloat16* from) {
    if constexpr (words > 1 || vectors == 1)
      return split(std::bit_cast<Words>(repeat<float, words>(from)));
    std::uint32_t word = 0;  // GCC 12 has registers enough for this one
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
