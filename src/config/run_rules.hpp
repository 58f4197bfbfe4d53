// The rules that involve more than one deck key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "config/run_config.hpp"
#include "io/deck.hpp"

namespace trireme::config {

struct BrokenRules {
  std::vector<io::DeckProblem> problems;
  bool only_ranks = true;  // another number of ranks would satisfy every broken rule
};

// Checks every rule. `config` is what the deck says, resolved; values of keys that are
// not sound may be anything, and rules about them are not judged.
BrokenRules check_rules(const io::Deck& deck, const RunConfig& config, int ranks,
                        int ranks_on_node = 0);

// Keys whose value asks for what this version cannot do yet, each with the values to
// write instead.
std::vector<io::DeckProblem> not_available_yet(const io::Deck& deck);

}  // namespace trireme::config
