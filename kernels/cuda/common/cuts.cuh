// Runs of elements that may begin anywhere, cut into what is aligned and the rest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/rows.cuh"

namespace trireme::kernels::cuda {

// Elements from p to the first that begins an aligned Group<T, n>.
template <int n, class T>
__host__ __device__ inline std::int64_t elements_to_alignment(const T* p) {
  constexpr std::uintptr_t bytes = alignof(Group<T, n>);
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
