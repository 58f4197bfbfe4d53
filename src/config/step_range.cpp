// Ranges of steps: their written form.
// SPDX-License-Identifier: Apache-2.0
#include "config/step_range.hpp"

#include <string>

#include "base/error.hpp"
#include "base/number.hpp"

namespace trireme::config {

StepRange parse_step_range(std::string_view text) {
  const std::size_t dash = std::min(text.find('-'), text.size());
  const auto first = parse_number<std::int64_t>(text.substr(0, dash));
  const auto last =
      dash < text.size() ? parse_number<std::int64_t>(text.substr(dash + 1)) : first;
  constexpr std::string_view remedy =
      "write the first and the last, as \"1200-1210\", or one step, as \"1200\"";
  require(first && last, Status::bad_content, "\"{}\" is no range of steps: {}", text,
          remedy);
  require(*first >= 1, Status::bad_content, "\"{}\": steps are counted from 1: {}", text,
          remedy);
  require(*first <= *last, Status::bad_content, "\"{}\" ends before it begins: {}", text,
          remedy);
  return {*first, *last};
}

std::int64_t steps_before(std::vector<StepRange> ranges, std::int64_t step) {
  std::ranges::sort(ranges, {}, &StepRange::first);
  std::int64_t count = 0, counted = 0;  // up to this step
  for (const StepRange& range : ranges) {
    const std::int64_t last = std::min(range.last, step - 1);
    count += std::max<std::int64_t>(last - std::max(range.first - 1, counted), 0);
    counted = std::max(counted, last);
  }
  return count;
}

}  // namespace trireme::config
