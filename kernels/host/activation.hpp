// Host implementation of kernels/activation.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/tensor_view.hpp"

namespace trireme::kernels::host {

void swiglu(const TensorView& gate_up_T2F, const TensorView& y_TF);
void swiglu_backward(const TensorView& dy_TF, const TensorView& gate_up_T2F,
                     const TensorView& dgate_up_T2F);
void gelu(const TensorView& x, const TensorView& y);
void gelu_backward(const TensorView& dy, const TensorView& x, const TensorView& dx);

}  // namespace trireme::kernels::host
