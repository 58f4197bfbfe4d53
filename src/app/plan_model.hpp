// `trireme plan FOLDER|config.json|NAME`: what a model takes, without a deck.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/arguments.hpp"
#include "comm/world.hpp"
#include "plan/machine.hpp"

namespace trireme::app {

// Prints a table of one rank's memory: by type, for inference, for adapters (LoRA) and
// for training with each optimizer; with a machine also which of them fit, and how long a
// step takes. arguments: parsed, the model's word first, overrides of the deck behind it.
// machine: null where there is no file. Throws as read_named_model(), and
// Error(bad_content) where the deck's rules refuse training of any kind.
int plan_model(comm::World& world, const Arguments& arguments,
               const plan::Machine* machine, int ranks);

}  // namespace trireme::app
