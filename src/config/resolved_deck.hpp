// A deck's text with the values that follow from others in the place of "follows".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/run_config.hpp"

namespace trireme::config {

// effective: of io::Deck::effective(), a deck that `config` was made of. A size that it
// leaves to others (0: as many as heads) is written as what came of it, with what was
// written in the comment: whoever reads the file, or a checkpoint that holds it, sees the
// model's real shape. Read again it gives the same configuration.
std::string resolved_deck(const std::string& effective, const RunConfig& config);

// The value, as TOML, that a key has where it leaves it to others (0 or "auto"): what it
// is of this model. "" for keys that do not.
std::string resolved_value(const io::DeckKey& key, const model::ModelConfig& model);

}  // namespace trireme::config
