// ActionTimes: adding up the spans of a run.
// SPDX-License-Identifier: Apache-2.0
#include "engine/action_times.hpp"

#include <utility>

namespace trireme::engine {

void ActionTimes::sum() {
  action_seconds_.clear();
  idle_seconds_ = 0;
  double waited = 0;
  for (const Span& span : spans_) {
    const double seconds = clock_.seconds(span.begin, span.end);
    if (span.is_wait) {
      waited += seconds;
      continue;
    }
    action_seconds_.push_back(seconds - waited);
    idle_seconds_ += std::exchange(waited, 0.0);
  }
  run_seconds_ = clock_.seconds(begin_, end_);
}

}  // namespace trireme::engine
