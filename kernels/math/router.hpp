// The weights of a token's experts: the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "kernels/router.hpp"

namespace trireme::kernels::math {

// As transformers' DeepSeek-V3 adds: sigmoids may all be tiny.
inline constexpr double smallest_sum = 1e-20;

// What multiplies the scores s of the K experts chosen: scaling / (the sum of these
// scores), or scaling alone.
template <class A>
TRIREME_HOST_DEVICE A weight_factor(const RouterWeights& rule, const A* s,
                                    const std::int32_t* choice, std::int64_t K) {
  if (!rule.normalise) return static_cast<A>(rule.scaling);
  A sum = 0;
  for (std::int64_t k = 0; k < K; ++k) sum += s[choice[k]];
  return static_cast<A>(rule.scaling) / (sum + static_cast<A>(smallest_sum));
}

}  // namespace trireme::kernels::math
