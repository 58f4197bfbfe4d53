// `trireme inspect DECK`: what a run trains on, as a person reads it, and single values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/arguments.hpp"

namespace trireme::app {

// Whether a path is a deck: a file that ends in .toml.
bool is_deck(const std::string& path);

// Prints what a deck with its overrides, `words`, says of the key of --value, as TOML, or
// its default: a line. Keys are checked one by one, not whether they go together.
// Throws Error(command_line) for a key that there is not, else as
// config::load_with_model() and io::Deck::require_sound().
void print_deck_value(const Arguments& arguments, const std::vector<std::string>& words);

// Prints the source, the share of each part of a blend, and a row of a step: its
// documents apart, and what is no target marked, in colours on a terminal. Throws as
// load_deck() and sources do. ranks: of the run, for the deck's rules.
void inspect_deck(const Arguments& arguments, int ranks);

}  // namespace trireme::app
