// Narrow floating-point formats as bits: rounding to nearest even, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace trireme::cuda_emulation {

// A format with a sign, `exponent` bits biased by 2^(exponent-1) - 1, and `mantissa`
// bits.
struct Format {
  int exponent, mantissa;
  std::uint32_t largest;  // bits of the largest finite number
  std::uint32_t beyond;   // what rounds above it: infinity, or NaN where there is none
  std::uint32_t nan;      // the NaN that conversions make
  constexpr int width() const { return 1 + exponent + mantissa; }
  constexpr int bias() const { return (1 << (exponent - 1)) - 1; }
};

inline constexpr Format bf16_format{8, 7, 0x7f7f, 0x7f80, 0x7fff};
inline constexpr Format fp16_format{5, 10, 0x7bff, 0x7c00, 0x7fff};
inline constexpr Format e4m3_format{4, 3, 0x7e, 0x7f, 0x7f};
inline constexpr Format e5m2_format{5, 2, 0x7b, 0x7c, 0x7f};

// value / 2^shift, rounded to nearest, ties to even.
constexpr std::uint64_t shift_to_nearest_even(std::uint64_t value, int shift) {
  if (shift <= 0) return value << -shift;
  if (shift > 63) return 0;
  const std::uint64_t kept = value >> shift, rest = value & ((1ull << shift) - 1);
  const std::uint64_t half = 1ull << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
}

// `x` in `format`. Past the largest number: `beyond`, or the largest where `saturate`.
constexpr std::uint32_t encode(const Format& format, double x, bool saturate = false) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto sign = static_cast<std::uint32_t>(bits >> 63) << (format.width() - 1);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const std::uint64_t fraction = bits & ((1ull << 52) - 1);
  if (exponent == 0x7ff && fraction != 0) return format.nan;
  const std::uint32_t too_large = sign | (saturate ? format.largest : format.beyond);
  if (exponent == 0x7ff) return too_large;
  if (exponent == 0) return sign;  // far below the least number of every narrow format
  const int target =
      exponent - 1023 + format.bias();  // exponent field, where it is normal
  if (target >= (1 << format.exponent)) return too_large;
  const int drop = 52 - format.mantissa + (target < 1 ? 1 - target : 0);
  std::uint64_t magnitude = shift_to_nearest_even(fraction | 1ull << 52, drop);
  // A carry out of the mantissa moves the exponent up, which is what rounding needs.
  if (target >= 1) magnitude += static_cast<std::uint64_t>(target - 1) << format.mantissa;
  if (magnitude > format.largest) return too_large;
  return sign | static_cast<std::uint32_t>(magnitude);
}

// The number with these bits: exact in float for every format here.
constexpr float decode(const Format& format, std::uint32_t bits) {
  const std::uint32_t magnitude = bits & ((1u << (format.width() - 1)) - 1);
  const std::uint32_t sign = bits >> (format.width() - 1) << 31;
  const bool has_infinity = format.beyond != format.nan;
  if (has_infinity && magnitude == format.beyond) {
    return std::bit_cast<float>(sign | 0x7f800000u);
  }
  if (magnitude > format.largest) return std::bit_cast<float>(sign | 0x7fffffffu);
  if (format.exponent == 8) return std::bit_cast<float>(sign | magnitude << 16);
  // As if float's exponent had the format's bias; a multiplication puts that right
  // exactly, and gives the format's subnormal numbers their true value.
  const float scaled = std::bit_cast<float>(magnitude << (23 - format.mantissa));
  const auto scale =
      std::bit_cast<float>(static_cast<std::uint32_t>(254 - format.bias()) << 23);
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled * scale));
}

// bf16 is the upper half of a float.
constexpr std::uint16_t float_to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// a * b + c in double, with the last bit set where it is not exact ("round to odd"): a
// second rounding to a narrow format then gives what one rounding of the exact result
// would.
inline double fused_to_odd(double a, double b, double c) {
  const double product = a * b;  // exact: the factors have at most 11 bits
  const double sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const double c_part = sum - product;
  const double error = (product - (sum - c_part)) + (c - c_part);
  auto bits = std::bit_cast<std::int64_t>(sum);
  if (error == 0 || (bits & 1) != 0) return sum;
  bits += (error > 0) == (sum > 0) ? 1 : -1;
  return std::bit_cast<double>(bits);
}

}  // namespace trireme::cuda_emulation
