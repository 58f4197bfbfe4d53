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
  require(first && last && *first >= 1 && *first <= *last, Status::bad_content,
          "\"{}\" is no range of steps: write the first and the last, as \"1200-1210\", "
          "or one step, as \"1200\"",
          std::string(text));
  return {*first, *last};
}

}  // namespace trireme::config
