// Optimizer updates in one sweep over memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

struct AdamW {
  double learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  std::int64_t step = 1;      // 1 for the first update: bias correction
  double gradient_scale = 1;  // the gradient is multiplied by this first (clipping)
};

// For each element, in PyTorch's order (Loshchilov and Hutter, 2019, algorithm 2):
//   w *= 1 - lr * weight_decay;  g = gradient * gradient_scale
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   w -= lr / (1 - beta1^step) * m / (sqrt(v / (1 - beta2^step)) + eps)
// master [n] f32 or f64, updated; gradient, moment1, moment2 [n] in master's dtype;
// weight: empty, or [n] in the compute dtype: the rounded copy of master, written.
// The gradient is left at zero, ready for the next step. 28 bytes of traffic per element
// plus 4 for the zeros (f32).
void adamw(Stream& stream, const AdamW& rule, const TensorView& master,
           const TensorView& gradient, const TensorView& moment1,
           const TensorView& moment2, const TensorView& weight);

// w = (1 - lr * weight_decay) w - lr * momentum buffer, buffer = momentum * buffer + g.
// With momentum = 0 the buffer may be empty. The gradient is left at zero.
struct Sgd {
  double learning_rate = 0;
  double momentum = 0;
  double weight_decay = 0;
  double gradient_scale = 1;
};
void sgd(Stream& stream, const Sgd& rule, const TensorView& master,
         const TensorView& gradient, const TensorView& buffer, const TensorView& weight);

}  // namespace trireme::kernels
