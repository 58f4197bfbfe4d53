// A deck and its overrides from the command line, or from a checkpoint.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/arguments.hpp"
#include "comm/world.hpp"
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

// What a checkpoint is a model of: its own tensors, and with adapter.quantize those of
// the base that its deck names, of which share `part` of `parts` is compared with the
// digest that the checkpoint has. Throws as convert::open_coded_base().
std::shared_ptr<const io::TensorSource> tensors_of(
    std::shared_ptr<const io::CheckpointReader> checkpoint,
    const config::RunConfig& config, int part, int parts);

// The deck of a model that came from a Hugging Face folder: nothing but the model, its
// weights' type, and no data. Throws Error(bad_content).
std::string folder_deck(const model::ModelConfig& model, std::optional<DType> dtype);

// The model of a checkpoint or a Hugging Face folder. sequence: 0 for as many positions
// as it has.
model::ModelConfig read_model(const std::string& path, std::int64_t sequence);

// A model to run: a checkpoint, or a Hugging Face folder.
struct OpenedModel {
  std::unique_ptr<io::TensorSource> tensors;
  config::RunConfig config;
};
// Opens what the command line names; ranks share the check of a checkpoint's digests.
// sequence: 0 for the model's own. Throws as the readers do.
OpenedModel open_model(const comm::World& world, const std::string& path,
                       std::int64_t sequence = 0);

// Where a command without a deck computes: --device auto, cpu or cuda. Collective over
// the world. Throws Error(command_line) for another word, else as
// launch::choose_device().
launch::ComputeDevice device_of(comm::World& world, const Arguments& arguments);

}  // namespace trireme::app
