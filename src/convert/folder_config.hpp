// config.json of a Hugging Face folder: the model that it describes, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "convert/quantization.hpp"
#include "model/hugging_face.hpp"
#include "model/model_config.hpp"

namespace trireme::convert {

inline constexpr auto config_name = "config.json";

struct FolderConfig {
  const model::HuggingFaceRow* row = nullptr;
  model::ModelConfig model;    // its sequence: as many positions as the model has
  std::optional<DType> dtype;  // of the weights, if it says so
  Quantization quantization{};
  std::string text;  // as it stands in the file; of its text part where it has others
};

// Reads config.json of a folder. Throws Error(missing_input) without a folder or the
// file, Error(bad_content) that names file, key and value for what is wrong, ambiguous,
// or more than this program computes.
FolderConfig read_folder_config(const std::string& folder);
// The same from its text; `source` names it in messages.
FolderConfig parse_folder_config(const std::string& text, const std::string& source);

// Throws Error(bad_content) unless a class of transformers can say what the model is,
// with the keys of the deck that none can.
void require_expressible(const model::ModelConfig& model);
// What that says; "" for a model that can be written.
std::string why_not_expressible(const model::ModelConfig& model);

// config.json of a model whose weights are stored as `dtype`. kept: that of the folder it
// came from, or "": its keys that say nothing of the model's shape stay, and all of them
// do when it describes this very model. Throws Error(bad_content) for an architecture
// that transformers does not have.
std::string folder_config_text(const model::ModelConfig& model, DType dtype,
                               const std::string& kept);

// The rates of dropout above 0 that a config.json names: "embd_pdrop = 0.1, ..."; "" if
// there are none. Training here takes its own from the deck.
std::string dropout_rates(const FolderConfig& config);

// Whether the family's class computes such a model: its architecture, windows, biases and
// rotary positions.
bool can_say(const model::HuggingFaceRow& row, const model::ModelConfig& model);

// The family that is written for a model: the first that can say it; null: there is none.
const model::HuggingFaceRow* row_for(const model::ModelConfig& model);

}  // namespace trireme::convert
