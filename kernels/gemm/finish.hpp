// Finish: what becomes of the sum of a row and a column of a product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm.hpp"
#include "kernels/host/vector_math.hpp"

namespace trireme::kernels {

// c[row][column] = sum, with the bias and what C held where these count. T is the type
// of the bias, C that of the result.
template <class T, class C>
struct Finish {
  C* out;
  std::int64_t stride;
  const T* added;  // the bias, or null
  bool accumulate;

  Finish(const TensorView& c, Accumulate accumulate_, const TensorView& bias)
      : out(c.data<C>()),
        stride(c.stride(0)),
        added(bias.empty() ? nullptr : bias.data<T>()),
        accumulate(accumulate_ == Accumulate::yes) {}
  void operator()(std::int64_t row, std::int64_t column, Accumulator<T> sum) const {
    C& to = out[row * stride + column];
    if (added != nullptr) sum += load(added[column]);
    if (accumulate) sum += load(to);
    to = store<C>(sum);
  }
};

}  // namespace trireme::kernels
