// LossScaler: halving and doubling.
// SPDX-License-Identifier: Apache-2.0
#include "optim/loss_scaler.hpp"

#include <algorithm>

namespace trireme::optim {

LossScaler::LossScaler(const LossScaling& settings)
    : settings_(settings), values_{static_cast<float>(settings.initial_scale), 0, 0} {}

void LossScaler::succeeded() {
  constexpr float largest = 0x1p126f;
  values_[1] += 1;
  if (values_[1] < static_cast<float>(settings_.growth_interval)) return;
  values_[0] = std::min(2 * values_[0], largest);
  values_[1] = 0;
}

bool LossScaler::overflowed() {
  const auto floor = static_cast<float>(settings_.floor);
  if (values_[0] <= floor) return false;
  values_[0] = std::max(values_[0] / 2, floor);
  values_[1] = 0;
  values_[2] += 1;
  return true;
}

}  // namespace trireme::optim
