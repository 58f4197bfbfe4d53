// WorkClock: how long this rank works, without what it waits for others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "comm/group.hpp"

namespace trireme::engine {

// Waiting is what the groups count as exposed. NCCL's kernels wait on the GPU, where it
// cannot be told from work.
class WorkClock {
 public:
  explicit WorkClock(const std::vector<comm::Group*>& groups)
      : groups_(groups), waited_(waited()), start_(Clock::now()) {}

  // Since construction.
  double seconds() const {
    const std::chrono::duration<double> all = Clock::now() - start_;
    return std::max(all.count() - (waited() - waited_), 0.0);
  }

 private:
  using Clock = std::chrono::steady_clock;

  double waited() const {
    double seconds = 0;
    for (const comm::Group* group : groups_)
      for (const comm::Traffic& traffic : group->traffic())
        seconds += traffic.exposed_seconds;
    return seconds;
  }

  const std::vector<comm::Group*>& groups_;
  double waited_;
  Clock::time_point start_;
};

}  // namespace trireme::engine
