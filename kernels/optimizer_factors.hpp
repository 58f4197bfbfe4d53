// The scalars of one optimizer step, computed in double and rounded to the type of the
// arithmetic: the same on every device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "base/tensor_view.hpp"
#include "kernels/optimizer.hpp"

namespace trireme::kernels {

template <class T>
struct AdamWFactors {
  T keep, gradient_scale, beta1, new1, beta2, new2, step_size, denominator_scale, eps;

  explicit AdamWFactors(const AdamW& rule)
      : keep(static_cast<T>(1 - rule.learning_rate * rule.weight_decay)),
        gradient_scale(static_cast<T>(rule.gradient_scale)),
        beta1(static_cast<T>(rule.beta1)),
        new1(static_cast<T>(1 - rule.beta1)),
        beta2(static_cast<T>(rule.beta2)),
        new2(static_cast<T>(1 - rule.beta2)),
        step_size(
            static_cast<T>(rule.learning_rate / (1 - power(rule.beta1, rule.step)))),
        denominator_scale(
            static_cast<T>(1 / std::sqrt(1 - power(rule.beta2, rule.step)))),
        eps(static_cast<T>(rule.eps)) {}

  static double power(double base, std::int64_t exponent) {
    return std::pow(base, static_cast<double>(exponent));
  }
};

template <class T>
struct SgdFactors {
  T keep, rate, gradient_scale, momentum;

  explicit SgdFactors(const Sgd& rule)
      : keep(static_cast<T>(1 - rule.learning_rate * rule.weight_decay)),
        rate(static_cast<T>(rule.learning_rate)),
        gradient_scale(static_cast<T>(rule.gradient_scale)),
        momentum(static_cast<T>(rule.momentum)) {}
};

// Calls f(T{}) with the type of the master weights, f32 or f64.
template <class F>
void visit_master(const TensorView& master, const F& f) {
  if (master.dtype() == DType::f64) return f(double{});
  f(float{});
}

// Calls f(T*) with the elements of `weight`: nullptr of float when there is none.
template <class F>
void visit_weight(const TensorView& weight, const F& f) {
  if (weight.empty()) return f(static_cast<float*>(nullptr));
  visit_floating(weight.dtype(),
                 [&](auto element) { f(weight.data<decltype(element)>()); });
}

}  // namespace trireme::kernels
