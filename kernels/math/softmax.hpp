// The formulas of softmax and cross-entropy of one row, the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

#include "base/dtype.hpp"
#include "base/host_device.hpp"

// L is the type of the logits; a row's statistics are its maximum and the sum of
// exp(logit - maximum). M is as in activation.hpp.
namespace trireme::kernels::math {

// What exponents are taken relative to. With -infinity (no column yet, or only -infinity)
// any finite number will do; it makes their exponentials 0, and NaN stays visible.
template <class L>
TRIREME_HOST_DEVICE L exponent_reference(L maximum) {
  return maximum == -std::numeric_limits<L>::infinity() ? L(0) : maximum;
}

// z = log of the sum of exp(logit).
template <class L>
TRIREME_HOST_DEVICE double log_sum(L maximum, L sum) {
  return static_cast<double>(maximum) + std::log(static_cast<double>(sum));
}

// z - target logit + z_loss z^2. Source of the last: Chowdhery et al., "PaLM", 2022,
// section 5.
template <class L>
TRIREME_HOST_DEVICE double token_loss(L maximum, L sum, L target_logit, double z_loss) {
  const double z = log_sum(maximum, sum);
  return z - static_cast<double>(target_logit) + z_loss * z * z;
}

// What multiplies exp(logit - maximum) in the gradient of scale * token_loss:
// exp(logit - z) = exp(logit - maximum) / sum, which rounds less than z does.
template <class L>
TRIREME_HOST_DEVICE L gradient_factor(L maximum, L sum, double scale, double z_loss) {
  return static_cast<L>(scale * (1.0 + 2.0 * z_loss * log_sum(maximum, sum)) /
                        static_cast<double>(sum));
}

// Calls f with the type of statistics: f32 or f64.
template <class F>
void visit_statistics(DType dtype, const F& f) {
  if (dtype == DType::f64)
    f(double{});
  else
    f(float{});
}

// A logit's softmax (factor 1 / sum) or its part of a gradient, before the target's.
template <class M, class L>
TRIREME_HOST_DEVICE L scaled_exponential(L factor, L logit, L reference) {
  return factor * M::exp_of_nonpositive(logit - reference);
}

// A gradient from that of the scores s, ds: softmax's, with the mean sum_j s_j ds_j, and
// the logistic function's.
template <class A>
TRIREME_HOST_DEVICE A softmax_gradient(A s, A ds, A mean) {
  return s * (ds - mean);
}
template <class A>
TRIREME_HOST_DEVICE A logistic_gradient(A s, A ds) {
  return s * (A(1) - s) * ds;
}

}  // namespace trireme::kernels::math
