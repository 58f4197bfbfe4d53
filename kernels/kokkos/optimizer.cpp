// AdamW and SGD: one pass over memory, all threads.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos/optimizer.hpp"

#include <cmath>

#include "kernels/optimizer.hpp"
#include "kernels/profile.hpp"

namespace trireme::kernels {
namespace {

ProfileFamily family("optimizer");

// The scalars of one AdamW step in the type of the arithmetic.
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
void adamw_block(const AdamWFactors<T>& f, T* __restrict master, T* __restrict gradient,
                 T* __restrict moment1, T* __restrict moment2, std::int64_t begin,
                 std::int64_t end) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const T g = gradient[i] * f.gradient_scale;
    const T m = f.beta1 * moment1[i] + f.new1 * g;
    const T v = f.beta2 * moment2[i] + f.new2 * (g * g);
    moment1[i] = m;
    moment2[i] = v;
    master[i] = f.keep * master[i] -
                f.step_size * m / (std::sqrt(v) * f.denominator_scale + f.eps);
    gradient[i] = 0;
  }
}

template <class T>
void sgd_block(const Sgd& rule, T* __restrict master, T* __restrict gradient,
               T* __restrict buffer, std::int64_t begin, std::int64_t end) {
  const auto keep = static_cast<T>(1 - rule.learning_rate * rule.weight_decay);
  const auto rate = static_cast<T>(rule.learning_rate);
  const auto scale = static_cast<T>(rule.gradient_scale);
  const auto momentum = static_cast<T>(rule.momentum);
  if (buffer == nullptr) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      master[i] = keep * master[i] - rate * (scale * gradient[i]);
      gradient[i] = 0;
    }
    return;
  }
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) {
    const T velocity = momentum * buffer[i] + scale * gradient[i];
    buffer[i] = velocity;
    master[i] = keep * master[i] - rate * velocity;
    gradient[i] = 0;
  }
}

// All that a sweep touches is dense, of one length; state is in master's type.
void check(const TensorView& master, const TensorView& state, const char* name) {
  require(state.dtype() == master.dtype() && state.elements() == master.elements() &&
              state.is_dense(),
          "optimizer: {} is {} {}, the master weights are {} {}", name,
          name_of(state.dtype()), state.shape(), name_of(master.dtype()), master.shape());
}

void check_weights(const TensorView& master, const TensorView& weight) {
  require(
      master.is_dense() && (master.dtype() == DType::f32 || master.dtype() == DType::f64),
      "optimizer: master weights are dense fp32 or fp64, not {} {}",
      name_of(master.dtype()), master.shape());
  require(weight.empty() || (weight.elements() == master.elements() && weight.is_dense()),
          "optimizer: weights {} for master weights {}", weight.shape(), master.shape());
}

// Calls f(T{}) with the master's type.
template <class F>
void visit_master(const TensorView& master, const F& f) {
  if (master.dtype() == DType::f64) return f(double{});
  f(float{});
}

}  // namespace

void adamw(Stream& stream, const AdamW& rule, const TensorView& master,
           const TensorView& gradient, const TensorView& moment1,
           const TensorView& moment2, const TensorView& weight) {
  check_weights(master, weight);
  check(master, gradient, "the gradient");
  check(master, moment1, "the first moment");
  check(master, moment2, "the second moment");
  require(rule.step >= 1, "AdamW counts steps from 1, not {}", rule.step);
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  visit_master(master, [&](auto element) {
    using T = decltype(element);
    const AdamWFactors<T> factors(rule);
    T* w = master.data<T>();
    T* g = gradient.data<T>();
    T* m = moment1.data<T>();
    T* v = moment2.data<T>();
    visit_weight(weight, [&](auto* rounded) {
      sweep("adamw", master.elements(), [&](std::int64_t begin, std::int64_t end) {
        adamw_block(factors, w, g, m, v, begin, end);
        round_weights(w, rounded, begin, end);
      });
    });
  });
}

void sgd(Stream& stream, const Sgd& rule, const TensorView& master,
         const TensorView& gradient, const TensorView& buffer, const TensorView& weight) {
  check_weights(master, weight);
  check(master, gradient, "the gradient");
  if (!buffer.empty()) check(master, buffer, "the momentum buffer");
  require(!buffer.empty() || rule.momentum == 0, "SGD with momentum {} needs a buffer",
          rule.momentum);
  if (stream.device().is_meta()) return;
  const ProfileScope scope(family);
  visit_master(master, [&](auto element) {
    using T = decltype(element);
    T* w = master.data<T>();
    T* g = gradient.data<T>();
    T* velocity = buffer.empty() ? nullptr : buffer.data<T>();
    visit_weight(weight, [&](auto* rounded) {
      sweep("sgd", master.elements(), [&](std::int64_t begin, std::int64_t end) {
        sgd_block(rule, w, g, velocity, begin, end);
        round_weights(w, rounded, begin, end);
      });
    });
  });
}

}  // namespace trireme::kernels
