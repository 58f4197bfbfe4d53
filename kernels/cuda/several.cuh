// Neighbouring elements moved together, and rows that may begin anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/types.cuh"

namespace trireme::kernels::cuda {

// n elements, a power of two: one access where they fill at most 16 bytes, else a few.
// Beside packs of another type they keep the number of elements the same.
template <class T, int n>
struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) Several {
  T x[n];
};

template <int n, class T>
__device__ inline Several<T, n> load_several(const T* from) {
  return *reinterpret_cast<const Several<T, n>*>(from);
}
template <int n, class T>
__device__ inline void store_several(T* to, const Several<T, n>& several) {
  *reinterpret_cast<Several<T, n>*>(to) = several;
}

// Elements from p to the first that begins an aligned Several<T, n>.
template <int n, class T>
__host__ __device__ inline std::int64_t elements_to_alignment(const T* p) {
  constexpr std::uintptr_t bytes = alignof(Several<T, n>);
  const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(p) % bytes;
  return static_cast<std::int64_t>((bytes - past) % bytes / sizeof(T));
}

// How a run of elements is cut: single ones, `groups` aligned groups of n, single ones.
struct Cut {
  std::int64_t head = 0, groups = 0;
};

// The cut of `count` elements at x. The elements at `others` are moved with those at x:
// where one of them is not aligned when x is, all elements are single.
template <int n, class T, class... Others>
__host__ __device__ inline Cut cut_run(std::int64_t count, const T* x,
                                       const Others*... others) {
  const std::int64_t head = elements_to_alignment<n>(x);
  const bool aligned = ((elements_to_alignment<n>(others + head) == 0) && ...);
  if (!aligned || head >= count) return {count, 0};
  return {head, (count - head) / n};
}

// Rows of a matrix: row r begins at (*this)[r].
template <class T>
struct RowsAt {
  T* data = nullptr;
  std::int64_t stride = 0;
  __device__ T* operator[](std::int64_t r) const { return data + r * stride; }
};

// Rows of a matrix of element type T of base/dtype.hpp; none for an empty view.
template <class T>
RowsAt<DeviceType<T>> rows_at(const TensorView& view) {
  if (view.empty()) return {};
  return {elements_of<T>(view), view.stride(0)};
}

// Threads for rows of `width` items: x along a row, y rows; 256 in all.
inline dim3 threads_for_rows(std::int64_t width) {
  unsigned along = warp_size;
  while (along < 256 && along < width) along *= 2;
  return dim3(along, 256 / along, 1);
}

// e^x; 0 for -infinity.
__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }

}  // namespace trireme::kernels::cuda
