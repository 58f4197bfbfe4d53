// Device functions on numbers.
// SPDX-License-Identifier: Apache-2.0
// They are loads and stores with hints, bits, conversions and fast mathematics.
#pragma once

#include <math.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <source_location>
#include <type_traits>

#include "cuda_emulation/thread.hpp"

#if !defined(__clang__)
#define __builtin_assume(condition) static_cast<void>(0)
#endif

namespace trireme::cuda_emulation {

// A GPU faults on an address that is not a multiple of the access's size.
template <class T>
void require_aligned(const T* address, const Source& where) {
  if (reinterpret_cast<std::uintptr_t>(address) % alignof(T) != 0) {
    fail_in_kernel("misaligned address", where);
  }
}

}  // namespace trireme::cuda_emulation

#define TRIREME_LOAD(name)                                                      \
  template <class T>                                                            \
  T name(const T* address,                                                      \
         const std::source_location& where = std::source_location::current()) { \
    trireme::cuda_emulation::require_aligned(address, where);                   \
    return *address;                                                            \
  }
TRIREME_LOAD(__ldg)
TRIREME_LOAD(__ldca)
TRIREME_LOAD(__ldcg)
TRIREME_LOAD(__ldcs)
TRIREME_LOAD(__ldlu)
TRIREME_LOAD(__ldcv)
#undef TRIREME_LOAD

#define TRIREME_STORE(name)                                                        \
  template <class T>                                                               \
  void name(T* address, std::type_identity_t<T> value,                             \
            const std::source_location& where = std::source_location::current()) { \
    trireme::cuda_emulation::require_aligned(address, where);                      \
    *address = value;                                                              \
  }
TRIREME_STORE(__stwb)
TRIREME_STORE(__stcg)
TRIREME_STORE(__stcs)
TRIREME_STORE(__stwt)
#undef TRIREME_STORE

// Bits. CUDA's __ffs counts from 1, and __clz(0) is 32.
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1;
}
inline int __ffsll(long long x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1u) << (31 - i);
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  const unsigned long long a_low = a & 0xffffffffu, a_high = a >> 32;
  const unsigned long long b_low = b & 0xffffffffu, b_high = b >> 32;
  const unsigned long long middle = a_high * b_low + (a_low * b_low >> 32);
  const unsigned long long other = a_low * b_high + (middle & 0xffffffffu);
  return a_high * b_high + (middle >> 32) + (other >> 32);
}
// Byte i of the result is byte selector[4i, 4i+3) of (y, x); bit 3 copies that byte's
// sign.
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned choice = selector >> (4 * i) & 0xfu;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (choice & 7u))) & 0xffu;
    if ((choice & 8u) != 0) byte = (byte & 0x80u) != 0 ? 0xffu : 0u;
    result |= byte << (8 * i);
  }
  return result;
}

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

// Conversions with a rounding. Out of range, a GPU saturates; NaN becomes 0.
inline int __float2int_saturated(float x) {
  if (std::isnan(x)) return 0;
  if (x >= 0x1p31f) return INT32_MAX;
  if (x <= -0x1p31f) return INT32_MIN;
  return static_cast<int>(x);
}
inline int __float2int_rn(float x) { return __float2int_saturated(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return __float2int_saturated(std::trunc(x)); }
inline int __float2int_rd(float x) { return __float2int_saturated(std::floor(x)); }
inline int __float2int_ru(float x) { return __float2int_saturated(std::ceil(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

// A product that no sum is fused with: the compiler does not see through the memory.
template <class T>
inline T __rounded_product(T a, T b) {
  T product = a * b;
  asm("" : "+m"(product));
  return product;
}

// Single operations, never fused with a neighbour on a GPU.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return __rounded_product(a, b); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return __rounded_product(a, b); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

// Fast approximations: the host's functions, which are nearer to the truth. The C library
// declares some of these names, without exceptions.
inline float __expf(float x) noexcept { return std::exp(x); }
inline float __exp10f(float x) noexcept { return static_cast<float>(std::pow(10.0, x)); }
inline float __logf(float x) noexcept { return std::log(x); }
inline float __log2f(float x) noexcept { return std::log2(x); }
inline float __log10f(float x) noexcept { return std::log10(x); }
inline float __powf(float x, float y) noexcept { return std::pow(x, y); }
inline float __sinf(float x) noexcept { return std::sin(x); }
inline float __cosf(float x) noexcept { return std::cos(x); }
inline float __tanf(float x) noexcept { return std::tan(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
// CUDA: 0 where 2^126 < |y| < 2^128.
inline float __fdividef(float x, float y) {
  const float size = std::fabs(y);
  return size > 0x1p126f && std::isfinite(size) ? x * 0.0f : x / y;
}
inline float rsqrtf(float x) noexcept { return __frsqrt_rn(x); }
inline double rsqrt(double x) noexcept { return 1.0 / std::sqrt(x); }
inline float rsqrt(float x) noexcept { return rsqrtf(x); }

// min and max in the global namespace, on mixed signedness as CUDA has them.
inline int min(int a, int b) { return b < a ? b : a; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline unsigned min(int a, unsigned b) { return min(static_cast<unsigned>(a), b); }
inline unsigned max(int a, unsigned b) { return max(static_cast<unsigned>(a), b); }
inline unsigned min(unsigned a, int b) { return min(a, static_cast<unsigned>(b)); }
inline unsigned max(unsigned a, int b) { return max(a, static_cast<unsigned>(b)); }
inline long min(long a, long b) { return b < a ? b : a; }
inline long max(long a, long b) { return a < b ? b : a; }
inline unsigned long min(unsigned long a, unsigned long b) { return b < a ? b : a; }
inline unsigned long max(unsigned long a, unsigned long b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) {
  return b < a ? b : a;
}
inline unsigned long long max(unsigned long long a, unsigned long long b) {
  return a < b ? b : a;
}
// A NaN loses against a number, as with fmin and fmax.
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }
inline double min(float a, double b) { return std::fmin(static_cast<double>(a), b); }
inline double max(float a, double b) { return std::fmax(static_cast<double>(a), b); }
inline double min(double a, float b) { return std::fmin(a, static_cast<double>(b)); }
inline double max(double a, float b) { return std::fmax(a, static_cast<double>(b)); }

[[noreturn]] inline void __trap(
    const std::source_location& where = std::source_location::current()) {
  trireme::cuda_emulation::fail_in_kernel("__trap() was called", where);
}
