// A deck and its overrides from the command line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "app/arguments.hpp"
#include "comm/world.hpp"
#include "io/checkpoint.hpp"
#include "train/run_config.hpp"

namespace trireme::app {

struct LoadedDeck {
  train::RunConfig config;
  std::string effective;  // the deck in force
};

// words: DECK, then overrides "section.key=value". Throws as io::Deck::load and
// make_run_config do.
LoadedDeck load_deck(const std::vector<std::string>& words, int ranks);

// What a checkpoint's own deck says.
train::RunConfig checkpoint_config(const io::CheckpointReader& reader);

}  // namespace trireme::app
