// The causal convolution of one channel, the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "kernels/math/activation.hpp"

namespace trireme::kernels::math {

// The taps of row t that meet rows from `first` on: w in [begin, W).
TRIREME_HOST_DEVICE std::int64_t first_tap(std::int64_t t, std::int64_t first,
                                           std::int64_t W) {
  const std::int64_t before = t - first;
  return before >= W - 1 ? 0 : W - 1 - before;
}

// silu(u) and d silu / du.
template <class M, class A>
TRIREME_HOST_DEVICE A silu(A u) {
  return u * logistic<M>(u).value;
}
template <class M, class A>
TRIREME_HOST_DEVICE A silu_slope(A u) {
  const Logistic<A> sigma = logistic<M>(u);
  return sigma.value * (A(1) + u * sigma.complement);
}

}  // namespace trireme::kernels::math
