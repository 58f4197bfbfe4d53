// The best decks of a search, run for a few steps each: `--measure K`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/world.hpp"
#include "plan/machine.hpp"
#include "plan/search_space.hpp"

namespace trireme::app {

// One of the best, as the search ranked them.
struct MeasuredDeck {
  std::vector<std::string> overrides;  // of the deck searched
  double predicted_seconds = 0;        // of a step
  double measured_seconds = 0;         // the median of `measured_steps` steps
};

inline constexpr int measured_steps = 5, warming_steps = 2;

// Runs each deck on the ranks that were started, on synthetic tokens, and sets its
// measured seconds. Collective over the world. Throws Error(resources) where these ranks
// do not compute on what the machine has, GPUs or CPUs.
void measure_decks(comm::World& world, const plan::SearchDeck& deck,
                   const plan::Machine& machine, std::vector<MeasuredDeck>& decks);

// A table, the fastest first, with how far each prediction was off, and what the order of
// predictions was worth. places: of the decks by measured time, see order_of().
std::string describe(const std::vector<MeasuredDeck>& decks,
                     const std::vector<std::size_t>& places);

// The places of the decks by measured time, ties in the order of predictions.
std::vector<std::size_t> order_of(const std::vector<MeasuredDeck>& decks);

}  // namespace trireme::app
