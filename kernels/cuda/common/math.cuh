// What a GPU makes the formulas of kernels/math of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "kernels/cuda/common/types.cuh"

namespace trireme::kernels::cuda {

// Their arithmetic for elements of type T. The exponential of the special function unit
// errs by 2^-21 or so for the arguments that matter, far below the rounding of 16-bit
// results, for which the full one would cost more time than memory does.
template <class T>
struct DeviceMath {
  using A = Wide<T>;
  __device__ static A exp_of_nonpositive(A x) {
    if constexpr (sizeof(T) == 2) {
      return __expf(x);
    } else {
      return std::exp(x);
    }
  }
  __device__ static A divide(A a, A b) {
    if constexpr (sizeof(T) == 2) {
      return __fdividef(a, b);
    } else {
      return a / b;
    }
  }
};

}  // namespace trireme::kernels::cuda
