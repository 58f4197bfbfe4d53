// IEEE half precision by CUDA's names. Rounding is to nearest even; a NaN becomes 0x7fff.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_emulation/half_types.hpp"

TRIREME_HALF_TYPE(__half, __half_raw, trireme::cuda_emulation::fp16_format)
TRIREME_HALF2_TYPE(__half, __half2, __half2_raw)
using half = __half;
using half2 = __half2;

inline __half __ushort_as_half(unsigned short bits) { return __half_raw{bits}; }
inline unsigned short __half_as_ushort(__half x) { return x.__x; }
inline __half __short_as_half(short bits) {
  return __ushort_as_half(static_cast<unsigned short>(bits));
}
inline short __half_as_short(__half x) { return static_cast<short>(x.__x); }

inline __half __float2half_rn(float x) { return x; }
inline __half __float2half(float x) { return x; }
inline __half __double2half(double x) { return x; }
inline __half __int2half_rn(int x) { return x; }
inline __half __uint2half_rn(unsigned x) { return x; }
inline float __half2float(__half x) { return x; }
inline int __half2int_rn(__half x) { return __float2int_rn(x); }
inline int __half2int_rz(__half x) { return __float2int_rz(x); }

inline __half2 __halves2half2(__half low, __half high) { return {low, high}; }
inline __half2 __half2half2(__half x) { return {x, x}; }
inline __half2 __float2half2_rn(float x) { return __half2half2(__float2half_rn(x)); }
inline __half2 __floats2half2_rn(float low, float high) {
  return {__float2half_rn(low), __float2half_rn(high)};
}
inline __half2 __float22half2_rn(float2 x) { return __floats2half2_rn(x.x, x.y); }
inline float2 __half22float2(__half2 x) { return {x.x, x.y}; }
inline __half __low2half(__half2 x) { return x.x; }
inline __half __high2half(__half2 x) { return x.y; }
inline __half2 __low2half2(__half2 x) { return {x.x, x.x}; }
inline __half2 __high2half2(__half2 x) { return {x.y, x.y}; }
// 1 for +infinity, -1 for -infinity.
inline int __hisinf(__half x) {
  return (x.__x & 0x7fffu) != 0x7c00u ? 0 : x.__x == 0x7c00u ? 1 : -1;
}
