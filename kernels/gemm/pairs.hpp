// Products of one row of bf16 by pairs, for processors that multiply these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__AVX512BF16__)
#define TRIREME_PAIRS
#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/gemm/ahead.hpp"

namespace trireme::kernels::few_rows {

// How a step of elements is read, multiplied and added up: by pairs, which one
// instruction multiplies and adds to a sum of f32 (subnormal numbers are 0). A step is
// four registers, each with sums of its own: so many codes of four bits are a register.
struct Pairs {
  static constexpr int registers = 4;
  static constexpr std::int64_t in_register = 32, step = registers * in_register;
  struct Loaded {
    __m512i of[registers];
  };
  struct Sums {
    __m512 of[registers];
  };

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
  // The sum of all, and of the products of `count` elements more, less than a step.
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

  // The product of a row of A with one of B.
  [[gnu::noinline]] static float dot(const BFloat16* a, const BFloat16* b,
                                     std::int64_t k) {
    Sums sums = {};
    const std::int64_t whole = k / step * step;
    for (std::int64_t i = 0; i < whole; i += step) {
      fetch_ahead(b + i, step * 2);
      add(sums, read(a + i), read(b + i));
    }
    return total(sums, a + whole, b + whole, k - whole);
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

}  // namespace trireme::kernels::few_rows
#endif
