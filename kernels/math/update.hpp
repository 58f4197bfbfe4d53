// Optimizer updates: the formula of one element, the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "base/error.hpp"
#include "base/host_device.hpp"

namespace trireme::kernels {

// A formula is a struct below with this name, which visit_formula() finds.
enum class UpdateFormula : std::uint8_t { adamw, sgd, momentum, lion, direction };

// One step of an elementwise optimizer.
struct Update {
  UpdateFormula formula = UpdateFormula::adamw;
  double learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0;
  std::int64_t step = 1;      // 1 for the first update: bias correction
  double gradient_scale = 1;  // the gradient is multiplied by this first (clipping)
};

namespace math {

inline double power(double base, std::int64_t exponent) {
  return std::pow(base, static_cast<double>(exponent));
}

// Each formula has its scalars, computed in double and rounded to the type T of the
// arithmetic; the number of its states; and the update of one element: the weight w and
// the states s0 and s1, of which it uses the first `states`.

// In PyTorch's order (Loshchilov and Hutter, 2019, algorithm 2):
//   w *= 1 - lr * weight_decay;  g = gradient * gradient_scale
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   w -= lr / (1 - beta1^step) * m / (sqrt(v / (1 - beta2^step)) + eps)
template <class T>
struct AdamW {
  static constexpr int states = 2;
  T keep, gradient_scale, beta1, new1, beta2, new2, step_size, denominator_scale, eps;

  explicit AdamW(const Update& u)
      : keep(static_cast<T>(1 - u.learning_rate * u.weight_decay)),
        gradient_scale(static_cast<T>(u.gradient_scale)),
        beta1(static_cast<T>(u.beta1)),
        new1(static_cast<T>(1 - u.beta1)),
        beta2(static_cast<T>(u.beta2)),
        new2(static_cast<T>(1 - u.beta2)),
        step_size(static_cast<T>(u.learning_rate / (1 - power(u.beta1, u.step)))),
        denominator_scale(static_cast<T>(1 / std::sqrt(1 - power(u.beta2, u.step)))),
        eps(static_cast<T>(u.eps)) {}

  TRIREME_HOST_DEVICE void operator()(T gradient, T& w, T& m, T& v) const {
    using std::sqrt;
    const T g = gradient * gradient_scale;
    m = beta1 * m + new1 * g;
    v = beta2 * v + new2 * (g * g);
    w = keep * w - step_size * m / (sqrt(v) * denominator_scale + eps);
  }
};

// w = (1 - lr * weight_decay) w - lr g
template <class T>
struct Sgd {
  static constexpr int states = 0;
  T keep, rate, gradient_scale;

  explicit Sgd(const Update& u)
      : keep(static_cast<T>(1 - u.learning_rate * u.weight_decay)),
        rate(static_cast<T>(u.learning_rate)),
        gradient_scale(static_cast<T>(u.gradient_scale)) {}

  TRIREME_HOST_DEVICE void operator()(T gradient, T& w, T&, T&) const {
    w = keep * w - rate * (gradient_scale * gradient);
  }
};

// SGD with momentum beta1: b = beta1 b + g;  w = (1 - lr * weight_decay) w - lr b
template <class T>
struct Momentum {
  static constexpr int states = 1;
  T keep, rate, gradient_scale, momentum;

  explicit Momentum(const Update& u)
      : keep(static_cast<T>(1 - u.learning_rate * u.weight_decay)),
        rate(static_cast<T>(u.learning_rate)),
        gradient_scale(static_cast<T>(u.gradient_scale)),
        momentum(static_cast<T>(u.beta1)) {}

  TRIREME_HOST_DEVICE void operator()(T gradient, T& w, T& b, T&) const {
    b = momentum * b + gradient_scale * gradient;
    w = keep * w - rate * b;
  }
};

// Source: Chen et al., "Symbolic discovery of optimization algorithms", 2023, program 1:
//   c = beta1 m + (1 - beta1) g;  m = beta2 m + (1 - beta2) g
//   w = (1 - lr * weight_decay) w - lr sign(c), with sign(0) = 0
template <class T>
struct Lion {
  static constexpr int states = 1;
  T keep, rate, gradient_scale, beta1, new1, beta2, new2;

  explicit Lion(const Update& u)
      : keep(static_cast<T>(1 - u.learning_rate * u.weight_decay)),
        rate(static_cast<T>(u.learning_rate)),
        gradient_scale(static_cast<T>(u.gradient_scale)),
        beta1(static_cast<T>(u.beta1)),
        new1(static_cast<T>(1 - u.beta1)),
        beta2(static_cast<T>(u.beta2)),
        new2(static_cast<T>(1 - u.beta2)) {}

  TRIREME_HOST_DEVICE void operator()(T gradient, T& w, T& m, T&) const {
    const T g = gradient * gradient_scale;
    const T c = beta1 * m + new1 * g;
    const T sign = c > 0 ? T(1) : c < 0 ? T(-1) : T(0);
    m = beta2 * m + new2 * g;
    w = keep * w - rate * sign;
  }
};

// Muon's momentum, before a matrix is made orthogonal. The "weight" is written: it
// becomes the direction.
//   m = m + (1 - beta1) (g - m);  w = g + beta2 (m - g)
// with beta2 = beta1 after Nesterov, else 1. Source: torch.optim.Muon.
template <class T>
struct Direction {
  static constexpr int states = 1;
  T gradient_scale, new1, beta2;

  explicit Direction(const Update& u)
      : gradient_scale(static_cast<T>(u.gradient_scale)),
        new1(static_cast<T>(1 - u.beta1)),
        beta2(static_cast<T>(u.beta2)) {}

  TRIREME_HOST_DEVICE void operator()(T gradient, T& w, T& m, T&) const {
    const T g = gradient * gradient_scale;
    m = m + new1 * (g - m);
    w = g + beta2 * (m - g);
  }
};

}  // namespace math

// Calls f(formula) with the formula of `update` in arithmetic of type T.
template <class T, class F>
void visit_formula(const Update& update, const F& f) {
  switch (update.formula) {
    case UpdateFormula::adamw: return f(math::AdamW<T>(update));
    case UpdateFormula::sgd: return f(math::Sgd<T>(update));
    case UpdateFormula::momentum: return f(math::Momentum<T>(update));
    case UpdateFormula::lion: return f(math::Lion<T>(update));
    case UpdateFormula::direction: return f(math::Direction<T>(update));
  }
  fail(Status::internal, "no such update formula");
}

// How many states a formula keeps of each element.
inline int states_of(UpdateFormula formula) {
  int states = 0;
  visit_formula<double>({.formula = formula},
                        [&](const auto& math) { states = math.states; });
  return states;
}

}  // namespace trireme::kernels
