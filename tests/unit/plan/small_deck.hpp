// The small model that tests of plans train.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/deck_table.hpp"
#include "config/run_config.hpp"

namespace trireme::plan {

// more: lines behind the deck's. Throws Error where it cannot run on so many ranks.
inline config::RunConfig small_deck(const std::vector<std::string>& overrides, int ranks,
                                    const std::string& more = "") {
  const std::string text = R"(
[run]
steps = 100
device = "cpu"
[model]
architecture = "llama"
layers = 4
hidden = 64
heads = 4
feed_forward = 128
vocabulary = 128
sequence = 64
[data]
source = "synthetic"
[batch]
global = 16
micro = 4
[optimizer]
name = "adamw"
learning_rate = 1e-3
)";
  return config::make_run_config(
      io::Deck::parse(text + more, "deck", overrides, config::deck_table()), ranks);
}

}  // namespace trireme::plan
