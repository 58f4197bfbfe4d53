// SwiGLU and GELU, forward and backward. All tensors in the compute dtype.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// y_TF = silu(gate) * up with gate = gate_up[:, :F], up = gate_up[:, F:].
// Source: Shazeer, "GLU variants improve Transformer", 2020, eq. 5.
void swiglu(Stream& stream, const TensorView& gate_up_T2F, const TensorView& y_TF);

// dgate_up_T2F is written.
void swiglu_backward(Stream& stream, const TensorView& dy_TF,
                     const TensorView& gate_up_T2F, const TensorView& dgate_up_T2F);

// y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): "gelu_new" of GPT-2.
// Source: Hendrycks and Gimpel, 2016.
void gelu(Stream& stream, const TensorView& x, const TensorView& y);

// dx is written; it may be dy itself.
void gelu_backward(Stream& stream, const TensorView& dy, const TensorView& x,
                   const TensorView& dx);

}  // namespace trireme::kernels
