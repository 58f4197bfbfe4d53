// CUDA implementation of kernels/optimizer.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/optimizer.hpp"

namespace trireme::kernels::cuda {

void adamw(Stream& stream, const AdamW& rule, const TensorView& master,
           const TensorView& gradient, const TensorView& moment1,
           const TensorView& moment2, const TensorView& weight);
void sgd(Stream& stream, const Sgd& rule, const TensorView& master,
         const TensorView& gradient, const TensorView& buffer, const TensorView& weight);

}  // namespace trireme::kernels::cuda
