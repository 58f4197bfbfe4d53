// Element types on the device: conversions, and 16-byte accesses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cuda_machine/store.cuh>
#include <type_traits>

#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

// The device's type of an element type of base/dtype.hpp.
template <class T>
struct DeviceTypeOf {
  using type = T;
};
template <>
struct DeviceTypeOf<BFloat16> {
  using type = __nv_bfloat16;
};
template <>
struct DeviceTypeOf<Float16> {
  using type = __half;
};
template <class T>
using DeviceType = typename DeviceTypeOf<T>::type;

// The type in which sums over elements of type T are kept.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
__device__ inline Wide<T> widen(T x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __bfloat162float(x);
  } else if constexpr (std::is_same_v<T, __half>) {
    return __half2float(x);
  } else {
    return x;
  }
}

// Rounds to nearest, ties to even.
template <class T, class W>
__device__ inline T narrow(W x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(static_cast<float>(x));
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

// Elements that one access of 16 bytes moves.
template <class T>
inline constexpr int pack_elements = 16 / static_cast<int>(sizeof(T));

template <class T>
struct alignas(16) Pack {
  T x[pack_elements<T>];
};

template <class T>
__device__ inline Pack<T> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T>*>(from);
}
template <class T>
__device__ inline void store_pack(T* to, const Pack<T>& pack) {
  store_whole(reinterpret_cast<Pack<T>*>(to), pack);
}

// Whether rows of a tensor can be read by packs: its start and its rows are aligned.
inline bool is_packed(const TensorView& x) {
  if (x.empty()) return true;
  const auto start = reinterpret_cast<std::uintptr_t>(x.raw());
  const auto bytes = static_cast<std::int64_t>(size_of(x.dtype()));
  bool packed = start % 16 == 0;
  for (int i = 0; i + 1 < x.shape().rank(); ++i)
    packed = packed && x.stride(i) * bytes % 16 == 0;
  return packed && x.dim(x.shape().rank() - 1) * bytes % 16 == 0;
}

// The elements of a view, as the device's type.
template <class T>
DeviceType<T>* elements_of(const TensorView& x) {
  return x.empty() ? nullptr : reinterpret_cast<DeviceType<T>*>(x.data<T>());
}

}  // namespace trireme::kernels::cuda
