// A pipeline schedule is data: the order in which a stage runs its microbatches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::train {

enum class ActionKind : std::uint8_t { forward, backward };

struct Action {
  ActionKind kind = ActionKind::forward;
  std::int64_t microbatch = 0;
  bool operator==(const Action&) const = default;
};

using Schedule = std::vector<Action>;

// One stage alone: each microbatch's backward follows its forward, so that the
// activations of one microbatch are alive at a time.
Schedule one_stage_schedule(std::int64_t microbatches);

// The largest number of microbatches that are between forward and backward at once.
std::int64_t live_microbatches(const Schedule& schedule);

}  // namespace trireme::train
