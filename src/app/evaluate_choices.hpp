// `trireme evaluate MODEL --choices FILE.jsonl`: questions with choices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "app/arguments.hpp"
#include "app/placement_options.hpp"
#include "comm/world.hpp"

namespace trireme::app {

// What is told where a loss is no number.
inline constexpr std::string_view why_no_number =
    "a weight, a scale of its codes or an adapter is NaN or infinite, or the model's "
    "numbers are too large for the type it computes in (--compute)";

// Collective. `arguments` are parsed, and ask for it.
int evaluate_choices(comm::World& world, const Arguments& arguments,
                     const PlacementRequest& placement, OpenedModel opened);

}  // namespace trireme::app
