// Which steps and ranks metrics.profile names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme::config {

// Both ends belong to it.
struct NumberSpan {
  std::int64_t first = 0, last = 0;
  bool has(std::int64_t number) const { return first <= number && number <= last; }
};

struct ProfileWindow {
  std::vector<NumberSpan> steps{}, ranks{};  // ascending, without common numbers
  bool all_ranks = false;

  bool has_step(std::int64_t step) const { return has(steps, step); }
  bool has_rank(std::int64_t rank) const { return all_ranks || has(ranks, rank); }
  // The largest that is named; -1: none is.
  std::int64_t last_step() const { return steps.empty() ? -1 : steps.back().last; }
  std::int64_t last_rank() const { return ranks.empty() ? -1 : ranks.back().last; }

 private:
  static bool has(const std::vector<NumberSpan>& spans, std::int64_t number) {
    return std::any_of(spans.begin(), spans.end(),
                       [&](const NumberSpan& span) { return span.has(number); });
  }
};

// "10-12@0,3": steps, and after '@' ranks, each a list of numbers and of spans of them in
// ascending order; "@all": every rank; without '@' rank 0. "": no step. Throws
// Error(bad_content) that says what is wrong and how to write it.
ProfileWindow parse_profile(std::string_view text);

}  // namespace trireme::config
