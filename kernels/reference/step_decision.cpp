// Decisions about a step in double.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/step_decision.hpp"

#include <cmath>
#include <limits>

namespace trireme::kernels::reference {

std::vector<double> decide_step(const StepRule& rule, const std::vector<double>& rows) {
  const auto ranks = static_cast<int>(rows.size() / 2);
  const auto loss_of = [&](int rank) {
    return rows[static_cast<std::size_t>(2 * rank)] / rule.items;
  };
  double loss = 0, squares = 0;
  bool all_finite = true;
  for (int first = 0; first < ranks; first += rule.in_stage) {
    double of_stage = 0;
    for (int rank = first; rank < first + rule.in_stage; rank += rule.tensor)
      of_stage += loss_of(rank);
    loss += of_stage;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    squares += rows[static_cast<std::size_t>(2 * rank + 1)];
    all_finite = all_finite && std::isfinite(loss_of(rank));
  }
  if (!all_finite && std::isfinite(loss)) loss = std::numeric_limits<double>::quiet_NaN();
  const double norm = std::sqrt(squares);
  bool sound = norm <= rule.limits.largest_norm || std::isnan(norm);
  if (rule.limits.finite) sound = sound && std::isfinite(loss) && std::isfinite(norm);
  double scale = 1;
  if (rule.clip > 0 && norm > rule.clip) scale = rule.clip / norm;
  return {loss, norm, scale, sound ? 1.0 : 0.0};
}

}  // namespace trireme::kernels::reference
