// Stochastic rounding to one of the two neighbours in a narrower type.
// SPDX-License-Identifier: Apache-2.0
// It is by chance, so that the expectation of the result is the number itself.
// Source: Gupta et al., "Deep learning with limited numerical precision", 2015, section
// 3.
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.hpp"

namespace trireme {

// A binary floating-point format within f32.
struct NarrowFormat {
  int mantissa_bits = 0;
  int least_exponent = 0;  // of normal numbers
  float largest = 0;       // finite number
};

// Of bf16, f16, E4M3 and E5M2.
constexpr NarrowFormat narrow_format(DType type) {
  switch (type) {
    case DType::bf16: return {7, -126, 0x1.fep127f};
    case DType::f16: return {10, -14, 65504.0f};
    case DType::e5m2: return {2, -14, 57344.0f};
    default: return {3, -6, 448.0f};
  }
}

// A number of the format, as f32: x itself where it is one, otherwise the neighbour away
// from zero with the probability (|x| - below) / (above - below), exact to 2^-32, and
// else the neighbour towards zero. random: 32 random bits; the result is a function of
// both. NaN, infinities and what is beyond the largest finite number are given back as
// they are: the conversion to the type, for which nothing else is left to round,
// saturates or not as it does with any number.
constexpr float round_stochastic(float x, NarrowFormat format, std::uint32_t random) {
  constexpr int digits = 23, bias = 127;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits & 0x80000000u, magnitude = bits ^ sign;
  if (magnitude >= std::bit_cast<std::uint32_t>(format.largest)) return x;
  const int dropped = digits - format.mantissa_bits;
  const int exponent = static_cast<int>(magnitude >> digits);
  const int least = format.least_exponent + bias;
  if (exponent >= least || format.least_exponent == 1 - bias) {
    const std::uint32_t rest = magnitude << (32 - dropped);
    const std::uint32_t up = rest > random ? 1u << dropped : 0u;
    return std::bit_cast<float>(sign | (((magnitude >> dropped) << dropped) + up));
  }
  // Subnormal in the format: whole multiples of its least number.
  const std::uint32_t implicit = exponent > 0 ? 1u << digits : 0u;
  const std::uint64_t significand = (magnitude & 0x7fffffu) | implicit;
  const int shift = least - (exponent > 0 ? exponent : 1) + dropped;
  if (shift >= 64) return std::bit_cast<float>(sign);
  const std::uint64_t whole = significand >> shift;
  const std::uint64_t fraction = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t chance =
      shift <= 32 ? fraction << (32 - shift) : fraction >> (shift - 32);
  const auto count = static_cast<float>(whole + (chance > random ? 1 : 0));
  const float unit = std::bit_cast<float>(
      static_cast<std::uint32_t>(least - format.mantissa_bits) << digits);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(count * unit));
}

}  // namespace trireme
