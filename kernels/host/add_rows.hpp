// The sum of two rows and a bias, rounded once: of add_bias() and of the norms behind it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/host/vector_math.hpp"

namespace trireme::kernels {

// y = a + b (+ bias, unless null) over [begin, end) of a row; y may be a or b.
template <class T>
void add_rows(const T* a, const T* b, const T* bias, T* y, std::int64_t begin,
              std::int64_t end) {
  if (bias == nullptr) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) y[i] = store<T>(load(a[i]) + load(b[i]));
  } else {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i)
      y[i] = store<T>(load(a[i]) + load(b[i]) + load(bias[i]));
  }
}

}  // namespace trireme::kernels
