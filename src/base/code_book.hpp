// The numbers that codes of 4 and 8 bits stand for, and the nearest code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

namespace trireme {

// The numbers of 16 codes, as kernels take them: by value.
struct CodeBook {
  float numbers[16] = {};
};

// Codes of 4 bits for numbers between -1 and 1. NF4: quantiles of a normal distribution.
// Source: Dettmers et al., "QLoRA", 2023, appendix E. FP4: a sign, two bits of exponent
// and one of mantissa, as bitsandbytes numbers them, which is not in order.
enum class FourBitType : std::uint8_t { nf4, fp4 };

inline constexpr CodeBook nf4_book = {
    {-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
     -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
     0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,
     0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f,
     1.0f}};

inline constexpr CodeBook fp4_book = {
    {0.0f, 0.0625f / 12.0f, 8.0f / 12.0f, 1.0f, 4.0f / 12.0f, 6.0f / 12.0f, 2.0f / 12.0f,
     3.0f / 12.0f, 0.0f, -0.0625f / 12.0f, -8.0f / 12.0f, -1.0f, -4.0f / 12.0f,
     -6.0f / 12.0f, -2.0f / 12.0f, -3.0f / 12.0f}};

constexpr const CodeBook& book_of(FourBitType type) {
  return type == FourBitType::nf4 ? nf4_book : fp4_book;
}

// The nearest code of a number: that after as many bounds as lie below it. What lies on a
// bound, the middle of two numbers, goes down.
struct FourBitEncoder {
  float bounds[15] = {};
  std::uint8_t codes[16] = {};

  TRIREME_HOST_DEVICE unsigned encode(float y) const {
    unsigned below = 0;
    for (const float bound : bounds) below += bound < y ? 1u : 0u;
    return codes[below];
  }
};

constexpr FourBitEncoder encoder_of(FourBitType type) {
  constexpr std::uint8_t fp4_order[16] = {11, 10, 13, 12, 15, 14, 9, 0,
                                          8,  1,  6,  7,  4,  5,  2, 3};
  FourBitEncoder encoder;
  const CodeBook& book = book_of(type);
  for (unsigned i = 0; i < 16; ++i)
    encoder.codes[i] =
        type == FourBitType::fp4 ? fp4_order[i] : static_cast<std::uint8_t>(i);
  for (unsigned i = 0; i < 15; ++i)
    encoder.bounds[i] =
        (book.numbers[encoder.codes[i]] + book.numbers[encoder.codes[i + 1]]) / 2.0f;
  return encoder;
}

// The 256 numbers of the dynamic type, ascending: each power of ten from 1e-6 to 1 has
// twice as many as the one below it. Signed from -0.993 to 1, unsigned from 0 to 1.
// Source: Dettmers, "8-bit approximations for parallelism in deep learning", 2015.
struct DynamicMap {
  float numbers[256] = {};

  // The nearest code; the middle of two numbers goes to the lower one.
  TRIREME_HOST_DEVICE unsigned encode(float y) const {
    unsigned code = 0;
    for (unsigned step = 128; step > 0; step /= 2) {
      const unsigned next = code + step;
      if ((numbers[next - 1] + numbers[next]) / 2.0f < y) code = next;
    }
    return code;
  }
};

enum class DynamicType : std::uint8_t { signed_numbers, unsigned_numbers };
const DynamicMap& dynamic_map(DynamicType type);

}  // namespace trireme
