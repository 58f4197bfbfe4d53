// The formulas of rotary position embedding, the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.hpp"

// Source: Su et al., "RoFormer", 2021, section 3.2.
namespace trireme::kernels::math {

// theta^(-pair / half): the angle by which pair `pair` of `half` turns at each position.
TRIREME_HOST_DEVICE double rope_frequency(std::int64_t pair, std::int64_t half,
                                          double theta) {
  return std::pow(theta, -static_cast<double>(pair) / static_cast<double>(half));
}

template <class A>
struct Pair {
  A first, second;
};

// (a, b) turned by the angle of this cosine and sine.
template <class A>
TRIREME_HOST_DEVICE Pair<A> rotated(A a, A b, A cosine, A sine) {
  return {a * cosine - b * sine, b * cosine + a * sine};
}

}  // namespace trireme::kernels::math
