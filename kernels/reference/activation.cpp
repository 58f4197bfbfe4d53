// Activations in double, as they are published.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/activation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace trireme::kernels::reference {
namespace {

double sigma(double x) { return 1.0 / (1.0 + std::exp(-x)); }

const double root = std::sqrt(2.0 / std::numbers::pi);
double gelu_tanh(double x) { return std::tanh(root * (x + 0.044715 * x * x * x)); }
double gelu(double x) { return 0.5 * x * (1.0 + gelu_tanh(x)); }
double gelu_slope(double x) {
  const double tanh = gelu_tanh(x);
  return 0.5 * (1.0 + tanh) +
         0.5 * x * (1.0 - tanh * tanh) * root * (1.0 + 3.0 * 0.044715 * x * x);
}
// gate sigma(1.702 gate), and its slope.
double sigmoid_gelu(double x) { return x * sigma(1.702 * x); }
double sigmoid_gelu_slope(double x) {
  const double s = sigma(1.702 * x);
  return s + 1.702 * x * s * (1.0 - s);
}
double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double gelu_erf(double x) { return x * normal_distribution(x); }
double gelu_erf_slope(double x) {
  return normal_distribution(x) +
         x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
}
double silu(double x) { return x * sigma(x); }
double silu_slope(double x) { return sigma(x) + x * sigma(x) * (1.0 - sigma(x)); }

}  // namespace

double activation(Activation kind, double x, double up) {
  switch (kind) {
    case Activation::swiglu: return silu(x) * up;
    case Activation::gelu: return gelu(x);
    case Activation::relu2: return x > 0 ? x * x : 0;
    case Activation::geglu: return gelu(x) * up;
    case Activation::gelu_erf: return gelu_erf(x);
    case Activation::clamped_swiglu:
      return (std::clamp(up, -7.0, 7.0) + 1) * sigmoid_gelu(std::min(x, 7.0));
    case Activation::silu: return silu(x);
    case Activation::relu: return x > 0 ? x : 0;
    case Activation::geglu_erf: return gelu_erf(x) * up;
    case Activation::reglu: return x > 0 ? x * up : 0;
    case Activation::reglu2: return x > 0 ? x * x * up : 0;
    case Activation::glu: return sigma(x) * up;
  }
  fail(Status::internal, "no such activation");
}

double activation_slope(Activation kind, double x, double up) {
  switch (kind) {
    case Activation::swiglu: return silu_slope(x) * up;
    case Activation::gelu: return gelu_slope(x);
    case Activation::relu2: return x > 0 ? 2 * x : 0;
    case Activation::geglu: return gelu_slope(x) * up;
    case Activation::gelu_erf: return gelu_erf_slope(x);
    case Activation::clamped_swiglu:
      return x <= 7 ? (std::clamp(up, -7.0, 7.0) + 1) * sigmoid_gelu_slope(x) : 0;
    case Activation::silu: return silu_slope(x);
    case Activation::relu: return x > 0 ? 1 : 0;
    case Activation::geglu_erf: return gelu_erf_slope(x) * up;
    case Activation::reglu: return x > 0 ? up : 0;
    case Activation::reglu2: return x > 0 ? 2 * x * up : 0;
    case Activation::glu: return sigma(x) * (1.0 - sigma(x)) * up;
  }
  fail(Status::internal, "no such activation");
}

double activation_slope_of_up(Activation kind, double x, double up) {
  if (kind != Activation::clamped_swiglu) return activation(kind, x, 1);
  return std::abs(up) <= 7 ? sigmoid_gelu(std::min(x, 7.0)) : 0;
}

}  // namespace trireme::kernels::reference
