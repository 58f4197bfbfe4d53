// CUDA implementation of kernels/activation.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

void swiglu(Stream& stream, const TensorView& gate_up_T2F, const TensorView& y_TF);
void swiglu_backward(Stream& stream, const TensorView& dy_TF,
                     const TensorView& gate_up_T2F, const TensorView& dgate_up_T2F);
void gelu(Stream& stream, const TensorView& x, const TensorView& y);
void gelu_backward(Stream& stream, const TensorView& dy, const TensorView& x,
                   const TensorView& dx);

}  // namespace trireme::kernels::cuda
