// Decisions about a step on the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/step_decision.hpp"

#include <cmath>

namespace trireme::kernels::host {

void decide_step(Stream& /*stream*/, const StepRule& rule, const TensorView& rows_P2,
                 const TensorView& decision) {
  const double* const rows = rows_P2.data<double>();
  math::StepSums sums(rule.in_stage, rule.tensor);
  for (std::int64_t rank = 0; rank < rows_P2.dim(0); ++rank)
    sums.add(rows[2 * rank] / rule.items, rows[2 * rank + 1]);
  double* const out = decision.data<double>();
  const double loss = sums.loss(), norm = std::sqrt(sums.squares());
  out[decided_loss] = loss;
  out[decided_norm] = norm;
  out[decided_scale] = math::clipping(rule.clip, norm);
  out[decided_sound] = math::is_sound(rule.limits, loss, norm) ? 1.0 : 0.0;
}

}  // namespace trireme::kernels::host
