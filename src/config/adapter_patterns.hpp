// Patterns of modules with a value, as decks write them: "q_proj=16".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/number.hpp"
#include "nn/adapter_config.hpp"

namespace trireme::config {

// Nothing where the text is none, or its value is not in [least, most].
inline std::optional<nn::ModulePattern<double>> parse_module_pattern(
    std::string_view text, double least, double most) {
  const auto equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) return {};
  const auto value = parse_number<double>(text.substr(equals + 1));
  if (!value || !(*value >= least && *value <= most)) return {};
  return nn::ModulePattern<double>{std::string(text.substr(0, equals)), *value};
}

}  // namespace trireme::config
