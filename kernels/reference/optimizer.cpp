// Optimizer updates of one element in double.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/optimizer.hpp"

#include <cmath>

namespace trireme::kernels::reference {

// Source: Loshchilov and Hutter, 2019, algorithm 2, as in PyTorch (decay by the rate).
AdamWState adamw(const Update& rule, AdamWState state, double gradient) {
  const double step = static_cast<double>(rule.step);
  const double g = gradient * rule.gradient_scale;
  state.weight *= 1 - rule.learning_rate * rule.weight_decay;
  state.moment1 = rule.beta1 * state.moment1 + (1 - rule.beta1) * g;
  state.moment2 = rule.beta2 * state.moment2 + (1 - rule.beta2) * g * g;
  const double mean = state.moment1 / (1 - std::pow(rule.beta1, step));
  const double square = state.moment2 / (1 - std::pow(rule.beta2, step));
  state.weight -= rule.learning_rate * mean / (std::sqrt(square) + rule.eps);
  return state;
}

SgdState sgd(const Update& rule, SgdState state, double gradient) {
  state.buffer = rule.beta1 * state.buffer + gradient * rule.gradient_scale;
  state.weight = (1 - rule.learning_rate * rule.weight_decay) * state.weight -
                 rule.learning_rate * state.buffer;
  return state;
}

}  // namespace trireme::kernels::reference
