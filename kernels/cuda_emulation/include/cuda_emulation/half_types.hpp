// What __nv_bfloat16 and __half have in common: members, operators, arithmetic by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cuda_emulation/math.hpp"
#include "cuda_emulation/round.hpp"
#include "cuda_emulation/warp.hpp"

namespace trireme::cuda_emulation {

// A double that rounds further as `x` itself does: where x has more bits, the last one is
// odd.
inline double integer_to_odd(unsigned long long x) {
  if (x >> 53 != 0) x = (x & ~0x7ffull) | ((x & 0x7ffull) != 0 ? 0x800ull : 0);
  return static_cast<double>(x);
}
template <class T>
double to_odd(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return x;
  } else if (x < 0) {
    return -integer_to_odd(0ull - static_cast<unsigned long long>(x));
  } else {
    return integer_to_odd(static_cast<unsigned long long>(x));
  }
}

// The value to convert as a double whose last bit keeps what a float would lose.
template <Format format>
unsigned short encode_half(double x) {
  return static_cast<unsigned short>(encode(format, x));
}

inline float larger_half(float a, float b) {
  if (a == b) return std::signbit(a) ? b : a;  // +0 is larger than -0
  return std::fmax(a, b);
}
inline float smaller_half(float a, float b) {
  if (a == b) return std::signbit(a) ? a : b;
  return std::fmin(a, b);
}

}  // namespace trireme::cuda_emulation

// CUDA computes +, -, * and / as if exactly and rounds once. float has more than twice
// the bits, so that rounding its results again gives the same.
#define TRIREME_HALF_ARITHMETIC(T, function, op)                    \
  inline T operator op(const T& a, const T& b) {                    \
    return T(static_cast<float>(a) op static_cast<float>(b));       \
  }                                                                 \
  inline T& operator op##=(T& a, const T& b) { return a = a op b; } \
  inline T function(T a, T b) { return a op b; }
#define TRIREME_HALF_COMPARISON(T, function, op)           \
  inline bool operator op(const T& a, const T& b) {        \
    return static_cast<float>(a) op static_cast<float>(b); \
  }                                                        \
  inline bool function(T a, T b) { return a op b; }

// A 16-bit type T of the given format, with its raw form.
#define TRIREME_HALF_TYPE(T, Raw, format)                                            \
  struct alignas(2) Raw {                                                            \
    unsigned short x;                                                                \
  };                                                                                 \
  struct alignas(2) T {                                                              \
    unsigned short __x;                                                              \
    T() = default;                                                                   \
    constexpr T(const Raw& raw) : __x(raw.x) {}                                      \
    template <class From>                                                            \
    requires std::is_arithmetic_v<From> T(From x)                                    \
        : __x(trireme::cuda_emulation::encode_half<format>(                          \
              trireme::cuda_emulation::to_odd(x))) {}                                \
    constexpr operator Raw() const { return Raw{__x}; }                              \
    constexpr operator float() const {                                               \
      return trireme::cuda_emulation::decode(format, __x);                           \
    }                                                                                \
  };                                                                                 \
  TRIREME_HALF_ARITHMETIC(T, __hadd, +)                                              \
  TRIREME_HALF_ARITHMETIC(T, __hsub, -)                                              \
  TRIREME_HALF_ARITHMETIC(T, __hmul, *)                                              \
  TRIREME_HALF_ARITHMETIC(T, __hdiv, /)                                              \
  TRIREME_HALF_COMPARISON(T, __heq, ==)                                              \
  TRIREME_HALF_COMPARISON(T, __hne, !=)                                              \
  TRIREME_HALF_COMPARISON(T, __hlt, <)                                               \
  TRIREME_HALF_COMPARISON(T, __hle, <=)                                              \
  TRIREME_HALF_COMPARISON(T, __hgt, >)                                               \
  TRIREME_HALF_COMPARISON(T, __hge, >=)                                              \
  inline T operator+(const T& a) { return a; }                                       \
  inline T operator-(const T& a) {                                                   \
    return Raw{static_cast<unsigned short>(a.__x ^ 0x8000u)};                        \
  }                                                                                  \
  inline T __hneg(T a) { return -a; }                                                \
  inline T __habs(T a) { return Raw{static_cast<unsigned short>(a.__x & 0x7fffu)}; } \
  inline T __hfma(T a, T b, T c) {                                                   \
    return T(trireme::cuda_emulation::fused_to_odd(                                  \
        static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));       \
  }                                                                                  \
  inline T __hmax(T a, T b) {                                                        \
    return T(trireme::cuda_emulation::larger_half(static_cast<float>(a),             \
                                                  static_cast<float>(b)));           \
  }                                                                                  \
  inline T __hmin(T a, T b) {                                                        \
    return T(trireme::cuda_emulation::smaller_half(static_cast<float>(a),            \
                                                   static_cast<float>(b)));          \
  }                                                                                  \
  inline bool __hisnan(T a) { return std::isnan(static_cast<float>(a)); }            \
  template <>                                                                        \
  inline constexpr bool trireme::cuda_emulation::is_shuffled<T> = true;

#define TRIREME_HALF2_BINARY(T, T2, function) \
  inline T2 function##2(T2 a, T2 b) { return T2(function(a.x, b.x), function(a.y, b.y)); }
#define TRIREME_HALF2_ARITHMETIC(T, T2, function, op)                           \
  TRIREME_HALF2_BINARY(T, T2, function)                                         \
  inline T2 operator op(const T2& a, const T2& b) { return function##2(a, b); } \
  inline T2& operator op##=(T2& a, const T2& b) { return a = a op b; }

// Two of a 16-bit type in 32 bits.
#define TRIREME_HALF2_TYPE(T, T2, Raw2)                                                 \
  struct alignas(4) Raw2 {                                                              \
    unsigned short x, y;                                                                \
  };                                                                                    \
  struct alignas(4) T2 {                                                                \
    T x, y;                                                                             \
    T2() = default;                                                                     \
    constexpr T2(const T& x_, const T& y_) : x(x_), y(y_) {}                            \
    constexpr T2(const Raw2& raw) : x(T##_raw{raw.x}), y(T##_raw{raw.y}) {}             \
    constexpr operator Raw2() const { return Raw2{x.__x, y.__x}; }                      \
  };                                                                                    \
  TRIREME_HALF2_ARITHMETIC(T, T2, __hadd, +)                                            \
  TRIREME_HALF2_ARITHMETIC(T, T2, __hsub, -)                                            \
  TRIREME_HALF2_ARITHMETIC(T, T2, __hmul, *)                                            \
  TRIREME_HALF2_BINARY(T, T2, __hmax)                                                   \
  TRIREME_HALF2_BINARY(T, T2, __hmin)                                                   \
  inline T2 __h2div(T2 a, T2 b) { return T2(a.x / b.x, a.y / b.y); }                    \
  inline T2 operator/(const T2& a, const T2& b) { return __h2div(a, b); }               \
  inline T2 operator-(const T2& a) { return T2(-a.x, -a.y); }                           \
  inline T2 __hneg2(T2 a) { return -a; }                                                \
  inline T2 __habs2(T2 a) { return T2(__habs(a.x), __habs(a.y)); }                      \
  inline T2 __hfma2(T2 a, T2 b, T2 c) {                                                 \
    return T2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));                            \
  }                                                                                     \
  inline bool operator==(const T2& a, const T2& b) { return a.x == b.x && a.y == b.y; } \
  inline bool operator!=(const T2& a, const T2& b) { return a.x != b.x && a.y != b.y; } \
  inline float __low2float(T2 a) { return static_cast<float>(a.x); }                    \
  inline float __high2float(T2 a) { return static_cast<float>(a.y); }                   \
  inline T2 __lowhigh2highlow(T2 a) { return T2(a.y, a.x); }                            \
  template <>                                                                           \
  inline constexpr bool trireme::cuda_emulation::is_shuffled<T2> = true;
