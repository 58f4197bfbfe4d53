// FP8 (E4M3 and E5M2 of the OCP specification) by CUDA's names: storage and conversions.
// SPDX-License-Identifier: Apache-2.0
// Rounding is to nearest even; a NaN becomes 0x7f, as on a GPU.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned int;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate,
                                                 __nv_fp8_interpretation_t kind) {
  using namespace trireme::cuda_emulation;
  return static_cast<__nv_fp8_storage_t>(encode(
      kind == __NV_E4M3 ? e4m3_format : e5m2_format, x, saturate == __NV_SATFINITE));
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                                __nv_fp8_interpretation_t kind) {
  return __nv_cvt_double_to_fp8(x, saturate, kind);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t saturate,
                                                     __nv_fp8_interpretation_t kind) {
  return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_float_to_fp8(x.y, saturate, kind)
                                               << 8 |
                                           __nv_cvt_float_to_fp8(x.x, saturate, kind));
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x,
                                                  __nv_saturation_t saturate,
                                                  __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(__half(x), saturate, kind);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x,
                                                      __nv_saturation_t saturate,
                                                      __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(__nv_bfloat16(x), saturate, kind);
}
inline __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(
    __nv_bfloat162_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float2_to_fp8x2(__bfloat1622float2(x), saturate, kind);
}
inline __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw x,
                                                       __nv_saturation_t saturate,
                                                       __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float2_to_fp8x2(__half22float2(x), saturate, kind);
}
// Every FP8 number is exact in half precision.
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x,
                                          __nv_fp8_interpretation_t kind) {
  using namespace trireme::cuda_emulation;
  return __half(decode(kind == __NV_E4M3 ? e4m3_format : e5m2_format, x));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x,
                                              __nv_fp8_interpretation_t kind) {
  const auto low = static_cast<__nv_fp8_storage_t>(x & 0xffu);
  const auto high = static_cast<__nv_fp8_storage_t>(x >> 8);
  return {__nv_cvt_fp8_to_halfraw(low, kind).x, __nv_cvt_fp8_to_halfraw(high, kind).x};
}

// Constructors saturate, as CUDA's do.
#define TRIREME_FP8_TYPE(T, kind)                                                   \
  struct T {                                                                        \
    __nv_fp8_storage_t __x;                                                         \
    T() = default;                                                                  \
    explicit T(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, kind)) {}    \
    explicit T(double x) : __x(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, kind)) {}  \
    explicit T(__half x) : T(static_cast<float>(x)) {}                              \
    explicit T(__nv_bfloat16 x) : T(static_cast<float>(x)) {}                       \
    explicit operator __half() const { return __nv_cvt_fp8_to_halfraw(__x, kind); } \
    explicit operator float() const {                                               \
      return static_cast<float>(static_cast<__half>(*this));                        \
    }                                                                               \
    explicit operator double() const { return static_cast<float>(*this); }          \
    explicit operator __nv_bfloat16() const { return static_cast<float>(*this); }   \
  };
TRIREME_FP8_TYPE(__nv_fp8_e4m3, __NV_E4M3)
TRIREME_FP8_TYPE(__nv_fp8_e5m2, __NV_E5M2)
#undef TRIREME_FP8_TYPE

// Two and four numbers, the first in the lowest bits.
#define TRIREME_FP8_VECTORS(T, T2, T4, kind)                                          \
  struct alignas(2) T2 {                                                              \
    __nv_fp8x2_storage_t __x;                                                         \
    T2() = default;                                                                   \
    explicit T2(float2 x) : __x(__nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, kind)) {} \
    explicit operator float2() const {                                                \
      return __half22float2(__nv_cvt_fp8x2_to_halfraw2(__x, kind));                   \
    }                                                                                 \
  };                                                                                  \
  struct alignas(4) T4 {                                                              \
    __nv_fp8x4_storage_t __x;                                                         \
    T4() = default;                                                                   \
    explicit T4(float4 x)                                                             \
        : __x(static_cast<unsigned>(T2(make_float2(x.z, x.w)).__x) << 16 |            \
              T2(make_float2(x.x, x.y)).__x) {}                                       \
    explicit operator float4() const {                                                \
      const auto convert = [](unsigned bits) {                                        \
        const auto storage = static_cast<__nv_fp8x2_storage_t>(bits);                 \
        return __half22float2(__nv_cvt_fp8x2_to_halfraw2(storage, kind));             \
      };                                                                              \
      const float2 low = convert(__x & 0xffffu), high = convert(__x >> 16);           \
      return {low.x, low.y, high.x, high.y};                                          \
    }                                                                                 \
  };
TRIREME_FP8_VECTORS(__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3, __NV_E4M3)
TRIREME_FP8_VECTORS(__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2, __NV_E5M2)
#undef TRIREME_FP8_VECTORS
