// The three products of a linear layer y = x W^T + bias.
// Legend: T rows, I input width, O output width; weights are [out, in].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"

namespace trireme::nn {

// y_TO = x_TI W_OI^T (+ bias_O, which may be empty)
inline void linear(Stream& stream, const TensorView& x_TI, const TensorView& weight_OI,
                   const TensorView& bias_O, const TensorView& y_TO) {
  using kernels::Transpose;
  kernels::gemm(stream, y_TO, x_TI, Transpose::no, weight_OI, Transpose::yes,
                kernels::Accumulate::no, bias_O);
}

// dx_TI = dy_TO W_OI
inline void linear_input_gradient(Stream& stream, const TensorView& dy_TO,
                                  const TensorView& weight_OI, const TensorView& dx_TI) {
  using kernels::Transpose;
  kernels::gemm(stream, dx_TI, dy_TO, Transpose::no, weight_OI, Transpose::no);
}

// dW_OI += dy_TO^T x_TI
inline void linear_weight_gradient(Stream& stream, const TensorView& dy_TO,
                                   const TensorView& x_TI, const TensorView& dweight_OI) {
  using kernels::Transpose;
  kernels::gemm(stream, dweight_OI, dy_TO, Transpose::yes, x_TI, Transpose::no,
                kernels::Accumulate::yes);
}

}  // namespace trireme::nn
