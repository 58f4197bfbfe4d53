// SwiGLU and GELU in double.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/activation.hpp"

#include <cmath>
#include <numbers>

namespace trireme::kernels::reference {
namespace {
const double root = std::sqrt(2.0 / std::numbers::pi);
double inner(double x) { return root * (x + 0.044715 * x * x * x); }
}  // namespace

double silu(double x) { return x / (1.0 + std::exp(-x)); }

double silu_slope(double x) {
  const double sigma = 1.0 / (1.0 + std::exp(-x));
  return sigma + x * sigma * (1.0 - sigma);
}

double gelu(double x) { return 0.5 * x * (1.0 + std::tanh(inner(x))); }

double gelu_slope(double x) {
  const double tanh = std::tanh(inner(x));
  return 0.5 * (1.0 + tanh) +
         0.5 * x * (1.0 - tanh * tanh) * root * (1.0 + 3.0 * 0.044715 * x * x);
}

}  // namespace trireme::kernels::reference
