// The deck's precision section: the recipe that it names, with its changes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "config/run_config.hpp"

namespace trireme::config {

// Keys of section precision that replace the type of some classes of a recipe.
struct ClassKey {
  std::string_view key;
  std::span<const TensorClass> classes;
};
std::span<const ClassKey> class_keys();

// Reads what is sound and leaves the defaults for the rest: whether the parts fit is for
// the rules.
PrecisionSettings read_precision(const io::Deck& deck);

// The settings of a recipe as it stands in the table, the rest as by default.
PrecisionSettings precision_of(const Recipe& recipe);

// precision.compute as the recipe has it: "fp64", "fp32", "bf16", "fp16" or "fp8".
std::string_view compute_of(const Recipe& recipe);

// Whether step `step`, from 1 on, records what FP8 loses.
inline bool fp8_report_due(const PrecisionSettings& precision, std::int64_t step) {
  return precision.report_every > 0 && step % precision.report_every == 0;
}

}  // namespace trireme::config
