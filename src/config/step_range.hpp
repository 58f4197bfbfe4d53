// Ranges of steps, as a deck writes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme::config {

// Both ends belong to it.
struct StepRange {
  std::int64_t first = 1, last = 1;
  bool holds(std::int64_t step) const { return first <= step && step <= last; }
};

// "1200-1210", or "1200" for one step. Throws Error(bad_content) that says what is wrong
// and how to write it.
StepRange parse_step_range(std::string_view text);

// How many steps before `step` the ranges hold; those that several hold count once.
std::int64_t steps_before(std::vector<StepRange> ranges, std::int64_t step);

inline bool holds(const std::vector<StepRange>& ranges, std::int64_t step) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const StepRange& range) { return range.holds(step); });
}

}  // namespace trireme::config
