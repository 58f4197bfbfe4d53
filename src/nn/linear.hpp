// The three products of a linear layer y = x W^T + bias.
// Legend: T rows, I input width, O output width; weights are [out, in].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/elementwise.hpp"
#include "kernels/gemm_epilogue.hpp"
#include "nn/pass.hpp"

namespace trireme::nn {

// y_TO = x_TI W_OI^T (+ bias_O, which may be empty)
inline void linear(Stream& stream, const TensorView& x_TI, const TensorView& weight_OI,
                   const TensorView& bias_O, const TensorView& y_TO) {
  using kernels::Transpose;
  kernels::gemm(stream, y_TO, x_TI, Transpose::no, weight_OI, Transpose::yes,
                kernels::Accumulate::no, bias_O);
}

// u_TO = x_TI W_OI^T (+ bias_O, which may be empty), y_TO = gelu(u)
inline void linear_gelu(Stream& stream, const TensorView& x_TI,
                        const TensorView& weight_OI, const TensorView& bias_O,
                        const TensorView& u_TO, const TensorView& y_TO) {
  using kernels::Transpose;
  kernels::gemm_gelu(stream, y_TO, u_TO, x_TI, Transpose::no, weight_OI, Transpose::yes,
                     bias_O);
}

// du_TI = dy_TO W_OI times the derivative of GELU at u_TI
inline void linear_gelu_input_gradient(Stream& stream, const TensorView& dy_TO,
                                       const TensorView& weight_OI,
                                       const TensorView& u_TI, const TensorView& du_TI) {
  using kernels::Transpose;
  kernels::gemm_gelu_backward(stream, du_TI, u_TI, dy_TO, Transpose::no, weight_OI,
                              Transpose::no);
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

// Posts the gradients of a layer's weight and of its bias (which may have no elements),
// as one product where both are wanted. dy and x: see WeightGradients::post.
inline void post_linear_gradients(Pass& pass, const TensorView& dy_TO,
                                  const TensorView& x_TI, Param& weight, Param& bias) {
  const bool has_bias = bias.shape.rank() > 0;
  const bool together = has_bias && !weight.frozen && !bias.frozen;
  pass.weight_gradients.post(
      pass.stream, weight, [dy_TO, x_TI, together, &weight, &bias](Stream& on) {
        if (together) {
          kernels::gemm_column_sums(on, weight.gradient, bias.gradient, dy_TO, x_TI);
        } else {
          linear_weight_gradient(on, dy_TO, x_TI, weight.gradient);
        }
      });
  if (!has_bias) return;
  pass.weight_gradients.post(pass.stream, bias, [dy_TO, together, &bias](Stream& on) {
    if (!together) kernels::add_column_sums(on, dy_TO, bias.gradient);
  });
}

}  // namespace trireme::nn
