// Conversions, exp, tanh and the logistic function in loops that compilers vectorise.
// SPDX-License-Identifier: Apache-2.0
// They use no branches, no calls and no tables.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/dtype.hpp"
#include "kernels/math/activation.hpp"

namespace trireme::kernels {

// Value of a stored element in the type in which sums over it are kept.
inline double load(double x) { return x; }
inline float load(float x) { return x; }
inline float load(BFloat16 x) { return static_cast<float>(x); }

// The exponent is moved by a multiplication with 2^112, exact also for subnormal halves.
inline float load(Float16 x) {
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  const std::uint32_t sign = (x.bits & 0x8000u) << 16;
  const float finite = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u;
  const std::uint32_t bits =
      magnitude >= 0x7c00u ? special : std::bit_cast<std::uint32_t>(finite);
  return std::bit_cast<float>(bits | sign);
}

// Float16 of x, rounded to nearest, ties to even. Two candidates are made, for a normal
// and for a subnormal result, and one is picked. Adding 0.5 to a value below 2^-14 lets
// the adder round it at 2^-24, the spacing of subnormal halves.
inline Float16 round_to_half(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = u & 0x7fffffffu;
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  // 65520 and above round to infinity.
  std::uint32_t half = magnitude < (113u << 23) ? subnormal : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? (0x7e00u | ((magnitude >> 13) & 0x1ffu)) : half;
  Float16 result;
  result.bits = static_cast<std::uint16_t>(half | ((u >> 16) & 0x8000u));
  return result;
}

// BFloat16(x), with every choice among 32-bit numbers: loops that compilers vectorise pay
// a third less for it.
inline BFloat16 round_to_bfloat(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = u + 0x7fffu + ((u >> 16) & 1u);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  BFloat16 result;
  result.bits = static_cast<std::uint16_t>((nan ? u | 0x400000u : rounded) >> 16);
  return result;
}

// x rounded to T.
template <class T>
T store(Accumulator<T> x) {
  if constexpr (std::is_same_v<T, Float16>)
    return round_to_half(x);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return round_to_bfloat(x);
  else
    return T(x);
}

namespace detail {

template <class A>
struct ExpOf;
template <>
struct ExpOf<float> {
  using Bits = std::uint32_t;
  static constexpr int degree = 7, mantissa_bits = 23, bias = 127;
  // Beyond these the result is 0 and infinity.
  static constexpr float lowest = -104.0f, highest = 89.0f;
  // ln 2 in two parts; products of the first with an exponent are exact.
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
};
template <>
struct ExpOf<double> {
  using Bits = std::uint64_t;
  static constexpr int degree = 13, mantissa_bits = 52, bias = 1023;
  static constexpr double lowest = -746.0, highest = 710.0;
  static constexpr double ln2_high = 6.93147180369123816490e-01;
  static constexpr double ln2_low = 1.90821492927058770002e-10;
};

constexpr double factorial(int k) { return k < 2 ? 1.0 : k * factorial(k - 1); }

// sum over k in [K, degree] of r^(k - K) / k!
template <class A, int K = 0>
[[gnu::always_inline]] inline A exp_series(A r) {
  constexpr A coefficient = static_cast<A>(1.0 / factorial(K));
  if constexpr (K == ExpOf<A>::degree)
    return coefficient;
  else
    return exp_series<A, K + 1>(r) * r + coefficient;
}

}  // namespace detail

// e^x for x <= 0, which is what softmax and the logistic function need, within 2 units in
// the last place, subnormal results included; 0 on underflow, NaN for NaN. Good up to
// x = 88 (f32) and 709 (f64).
// With n = round(x / ln 2) and r = x - n ln 2, |r| <= ln(2) / 2: e^x = 2^n e^r by
// Taylor's series, whose remainder is below 0.1 ulp. 2^n is applied as 2^floor(n / 2)
// 2^ceil(n / 2) since n itself may lie outside the exponents of normal numbers.
template <class A>
[[gnu::always_inline]] inline A exponential_of_nonpositive(A x) {
  using C = detail::ExpOf<A>;
  using Bits = typename C::Bits;
  constexpr A log2_e = static_cast<A>(1.4426950408889634074);
  // Added to a small number it leaves, in the low bits of the sum, 2 bias plus the number
  // rounded to an integer; half of that is the exponent field of a power of two.
  constexpr A magic = static_cast<A>((Bits{3} << (C::mantissa_bits - 1)) + 2 * C::bias);
  x = C::lowest > x ? C::lowest : x;
  const A shifted = x * log2_e + magic;
  const A n = shifted - magic;
  A r = x - n * C::ln2_high;
  r = r - n * C::ln2_low;
  const Bits sum = std::bit_cast<Bits>(shifted);
  const Bits half = sum >> 1;
  return detail::exp_series<A>(r) * std::bit_cast<A>(half << C::mantissa_bits) *
         std::bit_cast<A>((sum - half) << C::mantissa_bits);
}

// e^x for every x; infinity on overflow.
template <class A>
[[gnu::always_inline]] inline A exponential(A x) {
  constexpr A highest = detail::ExpOf<A>::highest;
  return exponential_of_nonpositive(highest < x ? highest : x);
}

// tanh x within 7 units in the last place: -m / (m + 2) with m = e^a - 1, a = -2 |x|, and
// the sign of x. Near 0, where e^a would lose the digits of a, m is a times the rest of
// the same series.
template <class A>
[[gnu::always_inline]] inline A hyperbolic_tangent(A x) {
  constexpr A near = static_cast<A>(-0.34);  // above -ln(2) / 2, where the series holds
  const A a = A(-2) * std::abs(x);
  const A small = a * detail::exp_series<A, 1>(a > near ? a : near);
  const A m = a > near ? small : exponential_of_nonpositive(a) - A(1);
  return std::copysign(m / (m + A(2)), x);
}

// What the formulas of kernels/math are made of on a host.
struct HostMath {
  template <class A>
  [[gnu::always_inline]] static A exp_of_nonpositive(A x) {
    return exponential_of_nonpositive(x);
  }
  template <class A>
  [[gnu::always_inline]] static A divide(A a, A b) {
    return a / b;
  }
};

template <class A>
[[gnu::always_inline]] inline math::Logistic<A> logistic(A x) {
  return math::logistic<HostMath>(x);
}

}  // namespace trireme::kernels
