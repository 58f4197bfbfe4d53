// `trireme evaluate MODEL --choices FILE.jsonl`: questions with choices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/arguments.hpp"
#include "app/placement_options.hpp"
#include "comm/world.hpp"

namespace trireme::app {

// Collective. `arguments` are parsed, and ask for it.
int evaluate_choices(comm::World& world, const Arguments& arguments,
                     const PlacementRequest& placement, OpenedModel opened);

}  // namespace trireme::app
