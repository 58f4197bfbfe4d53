// The deck's precision section: the recipe that it names, with its changes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "config/run_config.hpp"

namespace trireme::config {

// The recipe that the deck names, with its changes to single classes: whether the parts
// fit is for the rules.
Recipe read_recipe(const io::Deck& deck);

// The settings of a recipe as it stands in the table, the rest as by default.
PrecisionSettings precision_of(const Recipe& recipe);

// precision.compute as the recipe has it: "fp64", "fp32", "bf16", "fp16" or "fp8".
std::string_view compute_of(const Recipe& recipe);

// Whether step `step`, from 1 on, records what FP8 loses.
inline bool fp8_report_due(const PrecisionSettings& precision, std::int64_t step) {
  return precision.report_every > 0 && step % precision.report_every == 0;
}

}  // namespace trireme::config
