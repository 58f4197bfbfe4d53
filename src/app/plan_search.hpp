// `trireme plan DECK --search`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "app/arguments.hpp"
#include "comm/world.hpp"
#include "plan/machine.hpp"

namespace trireme::app {

// Searches for `ranks` ranks of the machine, prints what it found, and writes the winning
// deck (-o) and the picture (--plot; beside the deck otherwise). arguments: parsed, with
// DECK and overrides as words. Returns the status. Throws Error(command_line) for wrong
// options, Error(bad_content) where the deck's rules refuse every candidate,
// Error(resources) where none fits.
int plan_search(comm::World& world, const Arguments& arguments,
                const plan::Machine& machine, int ranks);

}  // namespace trireme::app
