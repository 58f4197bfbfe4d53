// The model that a deck starts from.
// SPDX-License-Identifier: Apache-2.0
// It speaks in the place of keys of the model that the deck lacks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/deck.hpp"
#include "model/model_config.hpp"

namespace trireme::config {

// The model at a path, for sequences of this length; 0: of as many positions as it has.
using ReadModel =
    std::function<model::ModelConfig(const std::string& path, std::int64_t sequence)>;

// A model as the deck's [model] sections say it: "model.layers = 2", a line each. Keys
// that keep their default are left out, but for those that have none.
std::vector<std::string> model_lines(const model::ModelConfig& model);

// The same as text, each section's keys below its heading.
std::string model_text(const model::ModelConfig& model);

// Loads a deck leniently. Where it has model.from, read_model tells what keys of the
// model are that the deck leaves out; those that it gives and that differ are problems of
// the deck. Throws as Deck::load_leniently() and read_model do.
io::Deck load_with_model(const std::string& path, std::span<const std::string> overrides,
                         const ReadModel& read_model);

// Whether a key is one that load_with_model() takes from such a model, so that a deck can
// give no other value.
bool is_of_start_model(const io::DeckKey& key);

}  // namespace trireme::config
