// Cross-entropy over a whole vocabulary in double: the oracle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::kernels::reference {

struct CrossEntropy {
  std::vector<double> loss_C, dlogits_CV;  // dlogits of the sum of the losses
};

// loss = z - logit[target] + z_loss z^2 with z = log sum exp; rows with a negative target
// have neither loss nor gradient.
CrossEntropy cross_entropy(std::span<const double> logits_CV, std::size_t V,
                           std::span<const std::int32_t> targets_C, double z_loss);

}  // namespace trireme::kernels::reference
