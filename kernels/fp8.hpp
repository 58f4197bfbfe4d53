// FP8 numbers: E4M3 and E5M2, their bits, and matrices of them with their scales.
// SPDX-License-Identifier: Apache-2.0
// Source: Micikevicius et al., "FP8 Formats for Deep Learning", 2022, section 3; OCP,
// "8-bit Floating Point Specification", 2023.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/recipe.hpp"
#include "base/split.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// e4m3: 4 bits of exponent, 3 of mantissa, up to 448, NaN but no infinity (activations
// and weights). e5m2: up to 57344, with infinities and NaNs (gradients).
using Fp8Format = DType;

// What one scale covers: the tensor; 128 elements of a row; a block of 128 x 128; 32
// elements of a row, as a power of two (OCP MX).
enum class Fp8Scaling : std::uint8_t { tensor, row_128, block_128, row_32 };

// Of a scale that is made from an amax: fp8_scale() or fp8_power_scale(). What was
// quantized by a power of two has the same codes when it is quantized so once more.
enum class ScaleSteps : std::uint8_t { any, powers_of_two };

// A matrix [M, K] whose elements are code * scale.
// codes   u8 [M, K]; rows may be strided
// scales  f32, dense, of shape fp8_scales_shape(scaling, M, K):
//         tensor     [1]
//         row_128    [ceil(K / 128), M]: of block k of row m at [k, m]
//         row_32     [ceil(K / 32), M]: the same with blocks of 32
//         block_128  [ceil(M / 128), L]: L is ceil(K / 128) rounded up to a multiple of
//         4;
//                    columns beyond ceil(K / 128) are zeros that nothing reads
// These are the layouts that cuBLASLt reads, but for row_32, which hosts alone have.
struct Fp8Matrix {
  TensorView codes;
  Fp8Format format = Fp8Format::e4m3;
  Fp8Scaling scaling = Fp8Scaling::tensor;
  TensorView scales;
  ScaleSteps steps = ScaleSteps::any;  // of block_128's scales as they are written
};

// L of block_128.
constexpr std::int64_t fp8_scale_columns(std::int64_t K) {
  return divide_up(divide_up(K, fp8_block), 4) * 4;
}

inline Shape fp8_scales_shape(Fp8Scaling scaling, std::int64_t M, std::int64_t K) {
  switch (scaling) {
    case Fp8Scaling::tensor: return {1};
    case Fp8Scaling::row_128: return {divide_up(K, fp8_block), M};
    case Fp8Scaling::row_32: return {divide_up(K, mx_block), M};
    case Fp8Scaling::block_128: return {divide_up(M, fp8_block), fp8_scale_columns(K)};
  }
  return {};
}

// The place of the scale of element (row, column) in an [M, K] matrix's scales.
constexpr std::int64_t fp8_scale_at(Fp8Scaling scaling, std::int64_t M, std::int64_t K,
                                    std::int64_t row, std::int64_t column) {
  if (scaling == Fp8Scaling::tensor) return 0;
  if (scaling == Fp8Scaling::row_128) return column / fp8_block * M + row;
  if (scaling == Fp8Scaling::row_32) return column / mx_block * M + row;
  return row / fp8_block * fp8_scale_columns(K) + column / fp8_block;
}

// The largest finite number of a format.
constexpr float fp8_max(Fp8Format format) {
  return format == Fp8Format::e4m3 ? 448.0f : 57344.0f;
}

// Whether x is beyond the largest finite number by more than half the distance to the
// next one that there would be, so that saturating is no rounding. Not so of a NaN.
template <class F>
constexpr bool fp8_saturates(F x, Fp8Format format) {
  const F middle = format == Fp8Format::e4m3 ? F(464) : F(61440);
  return x > middle || x < -middle;
}

// The scale that brings `amax` to the largest finite number. 1 where amax is 0 or not
// finite, so that the codes of the tensor's NaNs and zeros stay what they are; never so
// small that its inverse overflows.
constexpr float fp8_scale(float amax, Fp8Format format) {
  constexpr float least_normal = 0x1p-126f, largest = 0x1.fffffep127f;
  if (!(amax > 0.0f && amax <= largest)) return 1.0f;
  const float scale = amax / fp8_max(format);
  return scale < least_normal ? least_normal : scale;
}

// The smallest power of two that is not below fp8_scale(): what row_32 scales by.
// Source: Mishra et al., "Recipes for pre-training LLMs with MXFP8", 2025, section 3.
constexpr float fp8_power_scale(float amax, Fp8Format format) {
  const auto bits = std::bit_cast<std::uint32_t>(fp8_scale(amax, format));
  constexpr std::uint32_t mantissa = 0x7fffffu;
  return std::bit_cast<float>((bits + mantissa) & ~mantissa);
}

constexpr float fp8_scale(float amax, Fp8Format format, ScaleSteps steps) {
  return steps == ScaleSteps::any ? fp8_scale(amax, format)
                                  : fp8_power_scale(amax, format);
}

constexpr float fp8_decode(std::uint8_t code, Fp8Format format) {
  const int mantissa_bits = format == Fp8Format::e4m3 ? 3 : 2;
  const int bias = format == Fp8Format::e4m3 ? 7 : 15;
  const int magnitude = code & 0x7f;
  const int exponent = magnitude >> mantissa_bits;
  const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
  const auto sign = static_cast<std::uint32_t>(code & 0x80) << 24;
  const auto with_sign = [&](std::uint32_t bits) {
    return std::bit_cast<float>(sign | bits);
  };
  if (format == Fp8Format::e4m3 && magnitude == 0x7f) return with_sign(0x7fc00000u);
  if (format == Fp8Format::e5m2 && exponent == 31)
    return with_sign(mantissa == 0 ? 0x7f800000u : 0x7fc00000u);
  if (exponent == 0) {  // subnormal: mantissa * 2^(1 - bias - mantissa_bits)
    const float unit = format == Fp8Format::e4m3 ? 0x1p-9f : 0x1p-16f;
    const float value = static_cast<float>(mantissa) * unit;
    return code & 0x80 ? -value : value;
  }
  return with_sign(static_cast<std::uint32_t>(exponent - bias + 127) << 23 |
                   static_cast<std::uint32_t>(mantissa) << (23 - mantissa_bits));
}

// Rounds x (float or double) to nearest, ties to even; what is beyond the largest finite
// number, infinities too, becomes that number ("saturating"); any NaN becomes 0x7f.
template <class F>
constexpr std::uint8_t fp8_encode(F x, Fp8Format format) {
  using Bits =
      std::conditional_t<std::is_same_v<F, double>, std::uint64_t, std::uint32_t>;
  constexpr int digits = std::is_same_v<F, double> ? 52 : 23;
  constexpr int own_bias = std::is_same_v<F, double> ? 1023 : 127;
  const int mantissa_bits = format == Fp8Format::e4m3 ? 3 : 2;
  const int bias = format == Fp8Format::e4m3 ? 7 : 15;
  const auto all = std::bit_cast<Bits>(x);
  const auto sign = static_cast<std::uint8_t>(all >> (sizeof(Bits) * 8 - 8) & 0x80u);
  Bits bits = all & ~(Bits{1} << (sizeof(Bits) * 8 - 1));
  const F most = static_cast<F>(fp8_max(format));
  if (x != x) return 0x7f;
  if (std::bit_cast<F>(bits) > most) bits = std::bit_cast<Bits>(most);
  const auto least_exponent = static_cast<Bits>(own_bias + 1 - bias);
  if (bits >> digits < least_exponent) {
    // Subnormal: next to this number the spacing of F is that of the format.
    const Bits spacing = (least_exponent + static_cast<Bits>(digits - mantissa_bits))
                         << digits;
    const F sum = std::bit_cast<F>(bits) + std::bit_cast<F>(spacing);
    return static_cast<std::uint8_t>(sign | (std::bit_cast<Bits>(sum) - spacing));
  }
  const int dropped = digits - mantissa_bits;
  const Bits odd = bits >> dropped & 1u;
  bits = (bits + (Bits{1} << (dropped - 1)) - 1 + odd) >> dropped;
  bits -= static_cast<Bits>(own_bias - bias) << mantissa_bits;
  return static_cast<std::uint8_t>(sign | bits);
}

}  // namespace trireme::kernels
