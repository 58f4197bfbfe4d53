// FP8 codes of some neighbouring numbers, and their largest magnitude.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp8.h>

#include "kernels/cuda/common/types.cuh"
#include "kernels/fp8.hpp"

namespace trireme::kernels::cuda {

// Bits of |x| as a float: for numbers that are not negative they are ordered as integers,
// and NaNs, made one, are above all. So maxima may be taken in any order.
template <class T, int n>
__device__ inline unsigned magnitude(const T (&x)[n]) {
  constexpr unsigned infinity = 0x7f800000u, nan = 0x7fc00000u;
  unsigned most = 0;
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const unsigned bits = __float_as_uint(static_cast<float>(widen(x[i]))) & 0x7fffffffu;
    most = max(most, bits > infinity ? nan : bits);
  }
  return most;
}

__device__ inline __nv_fp8_interpretation_t kind_of(Fp8Format format) {
  return format == Fp8Format::e4m3 ? __NV_E4M3 : __NV_E5M2;
}

// Codes of x * inverse, in a format that the compiler knows.
template <__nv_fp8_interpretation_t kind, class T, int n>
__device__ inline void encode_as(const T (&x)[n], Wide<T> inverse,
                                 unsigned char (&codes)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const Wide<T> scaled = widen(x[i]) * inverse;
    if constexpr (std::is_same_v<T, double>) {
      codes[i] = __nv_cvt_double_to_fp8(scaled, __NV_SATFINITE, kind);
    } else {
      codes[i] = __nv_cvt_float_to_fp8(scaled, __NV_SATFINITE, kind);
    }
    if (scaled != scaled) codes[i] = 0x7f;
  }
}
template <class T, int n>
__device__ inline void encode(const T (&x)[n], Wide<T> inverse, Fp8Format format,
                              unsigned char (&codes)[n]) {
  if (format == Fp8Format::e4m3) {
    encode_as<__NV_E4M3>(x, inverse, codes);
  } else {
    encode_as<__NV_E5M2>(x, inverse, codes);
  }
}

}  // namespace trireme::kernels::cuda
