// Parameter groups: tensors that are trained in their own way, or not at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/param.hpp"
#include "optim/optimizer_config.hpp"

namespace trireme::optim {

// "PATTERN frozen", or "PATTERN" with learning_rate=X and weight_decay=X, either or both.
// Throws Error(bad_content) saying what is wrong.
ParameterGroup parse_group(const std::string& text);

// Whether the whole name fits the pattern, where * stands for any characters.
bool matches(std::string_view pattern, std::string_view name);

// Marks the Param as the groups say whose patterns fit its tensors: of learning_rate and
// weight_decay each is that of the last fitting group that gives it, and the Param is
// frozen if the last fitting group says so. A decay that a group gives holds for norms
// and biases too, a rate is the group's own peak, whatever the run's. A Param may store
// several tensors: throws Error(bad_content) if a pattern fits some of them only.
void apply_groups(const OptimizerConfig& config, Param& param);

}  // namespace trireme::optim
