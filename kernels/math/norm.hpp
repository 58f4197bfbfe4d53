// The formulas of RMSNorm and LayerNorm, one element at a time, for hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "base/host_device.hpp"

// A is the type of sums and statistics. RMSNorm has no mean: its mean and its average of
// g are 0.
namespace trireme::kernels::math {

// rstd = 1 / sqrt(mean of (x - mean)^2 + eps)
template <class A>
TRIREME_HOST_DEVICE A reciprocal_root(A mean_square, A eps) {
  return A(1) / std::sqrt(mean_square + eps);
}

// n = (x - mean) rstd, which the gain multiplies.
template <class A>
TRIREME_HOST_DEVICE A normalized(A x, A mean, A rstd) {
  return (x - mean) * rstd;
}

// dx = rstd (g - average(g) - n average(g n)) with g = dy gain.
template <class A>
TRIREME_HOST_DEVICE A norm_input_gradient(A g, A n, A rstd, A average_g, A average_gn) {
  return rstd * (g - average_g - n * average_gn);
}

}  // namespace trireme::kernels::math
