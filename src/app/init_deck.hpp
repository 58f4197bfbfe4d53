// The deck of `trireme init`: what its keys are, and why, as TOML with comments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "app/init_answers.hpp"

namespace trireme::app {

// A key of the deck, its value as TOML, and why; without a reason what the table of keys
// says of it.
struct DeckLine {
  std::string key, value, why{};
};

// Everything but the mesh. name: of the run. whole: with the model's shape, in the place
// of model.from.
std::vector<DeckLine> deck_lines(const InitAnswers& answers, const InitMachine& on,
                                 const std::string& name, bool whole);

// "section.key = value", a line each, without comments.
std::string plain_text(const std::vector<DeckLine>& lines);

// In the order of the table of keys, below `head`. Throws Error(internal) for a key that
// is not in it.
std::string commented_text(const std::string& head, const std::vector<DeckLine>& lines);

}  // namespace trireme::app
