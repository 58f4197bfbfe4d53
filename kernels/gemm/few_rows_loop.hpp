// The loop of products of a few rows, and the order of its sums.
// SPDX-License-Identifier: Apache-2.0
// Products from numbers and from codes share it: they have the same bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include "kernels/gemm/few_rows.hpp"
#include "kernels/host/simd.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels::few_rows {

using Floats = simd::Vector<float>;

// Two registers of consecutive operands as f32. Those of bf16 come as those with even
// and those with odd places, which is a shift and a mask; A and B are read alike.
struct TwoRegisters {
  Floats first, second;
};
constexpr std::int64_t step = 2 * simd::lanes<float>;

[[gnu::always_inline]] inline TwoRegisters load_two(const float* from) {
  return {simd::load_vector(from), simd::load_vector(from + simd::lanes<float>)};
}
[[gnu::always_inline]] inline TwoRegisters load_two(const BFloat16* from) {
  typedef std::uint32_t Words __attribute__((vector_size(simd::register_bytes)));
  Words words;
  std::memcpy(&words, from, sizeof words);
  return {std::bit_cast<Floats>(words << 16), std::bit_cast<Floats>(words & 0xffff0000u)};
}

// How a step of elements is read, multiplied and added up.
template <class T>
struct Terms {
  using Loaded = TwoRegisters;
  using Sums = TwoRegisters;
  static constexpr std::int64_t step = few_rows::step;
  // Rows of A and of B whose sums are made together, so that these stay in registers.
  static constexpr int most_tile = 16;

  [[gnu::always_inline]] static Loaded read(const T* from) { return load_two(from); }
  [[gnu::always_inline]] static void add(Sums& sums, const Loaded& a, const Loaded& b) {
    sums.first = simd::multiply_add<float>(a.first, b.first, sums.first);
    sums.second = simd::multiply_add<float>(a.second, b.second, sums.second);
  }
  // The sum of all, and of the products of `count` elements more, less than a step.
  [[gnu::always_inline]] static float total(const Sums& sums, const T* a, const T* b,
                                            std::int64_t count) {
    float sum = simd::sum_lanes<float>(sums.first + sums.second);
    for (std::int64_t i = 0; i < count; ++i) sum += load(a[i]) * load(b[i]);
    return sum;
  }
};

#if defined(__AVX512BF16__)
// Pairs of bf16, which one instruction multiplies and adds up (and which takes subnormal
// numbers for 0). A step is four registers, each with sums of its own: so many codes of
// four bits are a register.
template <>
struct Terms<BFloat16> {
  static constexpr int registers = 4;
  struct Loaded {
    __m512i of[registers];
  };
  struct Sums {
    __m512 of[registers];
  };
  static constexpr std::int64_t in_register = 32, step = registers * in_register;
  static constexpr int most_tile = 4;

  [[gnu::always_inline]] static Loaded read(const BFloat16* from) {
    Loaded all;
#pragma GCC unroll 4
    for (int r = 0; r < registers; ++r)
      all.of[r] = _mm512_loadu_si512(from + r * in_register);
    return all;
  }
  [[gnu::always_inline]] static void add(Sums& sums, const Loaded& a, const Loaded& b) {
#pragma GCC unroll 4
    for (int r = 0; r < registers; ++r)
      sums.of[r] = _mm512_dpbf16_ps(sums.of[r], std::bit_cast<__m512bh>(a.of[r]),
                                    std::bit_cast<__m512bh>(b.of[r]));
  }
  [[gnu::always_inline]] static float total(Sums sums, const BFloat16* a,
                                            const BFloat16* b, std::int64_t count) {
    if (count > 0) add(sums, read_part(a, count), read_part(b, count));
    __m512 x = (sums.of[0] + sums.of[1]) + (sums.of[2] + sums.of[3]);
    x += _mm512_maskz_shuffle_f32x4(every_lane, x, x, 0b01'00'11'10);
    x += _mm512_maskz_shuffle_f32x4(every_lane, x, x, 0b10'11'00'01);
    x += _mm512_maskz_permute_ps(every_lane, x, 0b01'00'11'10);
    x += _mm512_maskz_permute_ps(every_lane, x, 0b10'11'00'01);
    return x[0];
  }

 private:
  static constexpr __mmask16 every_lane = 0xffff;

  // The first `count` elements of a step; the others are 0.
  static Loaded read_part(const BFloat16* from, std::int64_t count) {
    Loaded all;
    for (int r = 0; r < registers; ++r, from += in_register, count -= in_register) {
      const __mmask32 there = count >= in_register ? ~__mmask32{0}
                              : count > 0          ? (__mmask32{1} << count) - 1
                                                   : __mmask32{0};
      all.of[r] = _mm512_maskz_loadu_epi16(there, from);
    }
    return all;
  }
};
#endif

template <class T>
struct Rows {
  const T* a;
  const T* b;
  std::int64_t a_stride, b_stride, k;

  // sums[row][column] of `columns` rows of B from `column` on.
  template <int rows, int columns>
  void dot(std::int64_t column, float (&sums)[most_few_rows][4]) const {
    typename Terms<T>::Sums partial[rows][columns] = {};
    constexpr std::int64_t step = Terms<T>::step;
    const std::int64_t whole = k / step * step;
    const T* from = b + column * b_stride;
    for (std::int64_t i = 0; i < whole; i += step) {
      typename Terms<T>::Loaded right[columns];
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) {
        // What the next columns read is on its way meanwhile: of several rows of B the
        // processor does not see where they go. One row after the other it follows.
        if constexpr (columns > 1)
          for (std::int64_t ahead = 0; ahead < step; ahead += 64 / sizeof(T))
            __builtin_prefetch(from + (j + 2 * columns) * b_stride + i + ahead);
        right[j] = Terms<T>::read(from + j * b_stride + i);
      }
#pragma GCC unroll 4
      for (int row = 0; row < rows; ++row) {
        const auto left = Terms<T>::read(a + row * a_stride + i);
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) Terms<T>::add(partial[row][j], left, right[j]);
      }
    }
    for (int row = 0; row < rows; ++row)
      for (int j = 0; j < columns; ++j)
        sums[row][j] = Terms<T>::total(partial[row][j], a + row * a_stride + whole,
                                       from + j * b_stride + whole, k - whole);
  }

  template <int rows, class F>
  void run(std::int64_t begin, std::int64_t end, const F& finish) const {
    float sums[most_few_rows][4];
    std::int64_t column = begin;
    // B is read from end to end where A, which is read anew for each column, stays in the
    // first cache beside it. The sums are the same.
    constexpr std::int64_t most_of_a = 1 << 14;  // bytes
    const bool one_by_one = rows * k * static_cast<std::int64_t>(sizeof(T)) <= most_of_a;
    constexpr int columns = std::min(4, Terms<T>::most_tile / rows);
    for (; !one_by_one && column + columns <= end; column += columns) {
      dot<rows, columns>(column, sums);
      for (int j = 0; j < columns; ++j)
        for (int row = 0; row < rows; ++row) finish(row, column + j, sums[row][j]);
    }
    for (; column < end; ++column) {
      dot<rows, 1>(column, sums);
      for (int row = 0; row < rows; ++row) finish(row, column, sums[row][0]);
    }
  }
};

// f.operator()<rows>() with the number of rows as a constant.
template <class F>
void with_rows(std::int64_t rows, const F& f) {
  switch (rows) {
    case 1: return f.template operator()<1>();
    case 2: return f.template operator()<2>();
    case 3: return f.template operator()<3>();
    default: return f.template operator()<4>();
  }
}

}  // namespace trireme::kernels::few_rows
