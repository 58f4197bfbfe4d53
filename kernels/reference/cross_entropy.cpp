// Cross-entropy over a whole vocabulary in double.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/cross_entropy.hpp"

#include <algorithm>
#include <cmath>

namespace trireme::kernels::reference {

CrossEntropy cross_entropy(std::span<const double> logits_CV, std::size_t V,
                           std::span<const std::int32_t> targets_C, double z_loss) {
  CrossEntropy out{std::vector<double>(targets_C.size()),
                   std::vector<double>(logits_CV.size())};
  for (std::size_t c = 0; c < targets_C.size(); ++c) {
    if (targets_C[c] < 0) continue;
    const auto target = static_cast<std::size_t>(targets_C[c]);
    const auto logits = logits_CV.subspan(c * V, V);
    const double maximum = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double x : logits) sum += std::exp(x - maximum);
    const double z = maximum + std::log(sum);
    out.loss_C[c] = z - logits[target] + z_loss * z * z;
    // exp(logit - z) without the rounding of z, which may be large.
    const double factor = (1.0 + 2.0 * z_loss * z) / sum;
    for (std::size_t v = 0; v < V; ++v)
      out.dlogits_CV[c * V + v] =
          factor * std::exp(logits[v] - maximum) - (v == target ? 1.0 : 0.0);
  }
  return out;
}

}  // namespace trireme::kernels::reference
