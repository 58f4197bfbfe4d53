// The recipe of a run, as a table for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/run_config.hpp"

namespace trireme::config {

// Class, type, scaling and bytes of an element, a line each, with the bytes of a
// parameter and the blocks that stay in bf16.
std::string describe_recipe(const RunConfig& config);

}  // namespace trireme::config
