// A deck and its overrides from the command line, or from a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/arguments.hpp"
#include "config/run_config.hpp"
#include "io/checkpoint.hpp"
#include "launch/compute_device.hpp"

namespace trireme::app {

struct LoadedDeck {
  config::RunConfig config;
  std::string effective;  // the deck in force
};

// words: DECK, then overrides "section.key=value". Throws as config::load_run.
LoadedDeck load_deck(const std::vector<std::string>& words, int ranks,
                     int ranks_on_node = 0);

// What a checkpoint's own deck says.
config::RunConfig checkpoint_config(const io::CheckpointReader& reader);

// Where a command without a deck computes: --device auto, cpu or cuda. Collective over
// the world. Throws Error(command_line) for another word, else as
// launch::choose_device().
launch::ComputeDevice device_of(comm::World& world, const Arguments& arguments);

}  // namespace trireme::app
