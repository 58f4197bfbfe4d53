// Schedules.
// SPDX-License-Identifier: Apache-2.0
#include "train/schedule.hpp"

#include <algorithm>

namespace trireme::train {

Schedule one_stage_schedule(std::int64_t microbatches) {
  Schedule schedule;
  for (std::int64_t m = 0; m < microbatches; ++m) {
    schedule.push_back({ActionKind::forward, m});
    schedule.push_back({ActionKind::backward, m});
  }
  return schedule;
}

std::int64_t live_microbatches(const Schedule& schedule) {
  std::int64_t live = 0, most = 0;
  for (const Action& action : schedule) {
    live += action.kind == ActionKind::forward ? 1 : -1;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace trireme::train
