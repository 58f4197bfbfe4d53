// The formulas of attention's sinks, for hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "base/host_device.hpp"

namespace trireme::kernels::math {

// log(e^a + e^b); a may be minus infinity.
template <class A>
TRIREME_HOST_DEVICE A log_of_sum(A a, A b) {
  const A most = a > b ? a : b, least = a > b ? b : a;
  return most + std::log1p(std::exp(least - most));
}

}  // namespace trireme::kernels::math
