// NamedModel: the model that a word of the command line stands for, and decks made of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/arguments.hpp"
#include "model/model_config.hpp"

namespace trireme::app {

struct NamedModel {
  std::string name;  // for run.name: the folder's, or the deck's
  std::string what;  // for people: "LlamaForCausalLM, 32 layers of width 4096"
  model::ModelConfig model;
  std::optional<DType> dtype;  // of the weights, if it is said
  std::string weights;         // the folder or checkpoint that has some; "": none
  std::string tokenizer;       // of that folder; "": none
};

// Whether a word is no deck, but stands for a model: a folder, a config.json, or a name
// such as llama-3.1-8b of which there is a deck in inputs/models and no file here.
bool names_model(const std::string& word);

// Reads it: config.json of a Hugging Face folder or the file itself, the deck of a
// checkpoint or a run, or of inputs/models. No weights are read. Throws as the readers
// do, and Error(missing_input) for what is none of these.
NamedModel read_named_model(const std::string& word);

// The deck of a model's name in inputs/models: below the current directory, of the
// installed tree that the program is in, or of its source tree; "": there is none.
std::string model_deck_path(const std::string& name);

// Names that have one.
std::vector<std::string> model_names();

// What the user asked for besides the model; 0 or empty: not given, see sequence_of() and
// compute_of().
struct DeckWishes {
  std::int64_t sequence = 0, batch = 0;
  std::string compute{};  // precision.compute
};
// --sequence, --batch and --precision. Throws Error(command_line).
DeckWishes read_wishes(const Arguments& arguments);

// The length of sequences: what is wished, or as many positions as the model has, but
// 4096 at most. Throws Error(command_line) for more than the model has, and for any other
// number where positions are learned.
std::int64_t sequence_of(const NamedModel& named, const DeckWishes& wishes);

// precision.compute: what is wished, or the type of the weights, or bf16.
std::string compute_of(const NamedModel& named, const DeckWishes& wishes);

// "section.key = value", a line each: a run of synthetic data that trains the model on
// `ranks` ranks, one sequence at a time on each, all state shared out over them.
std::vector<std::string> plan_lines(const NamedModel& named, const DeckWishes& wishes,
                                    int ranks);
// The same as a deck's text.
std::string plan_deck(const NamedModel& named, const DeckWishes& wishes, int ranks);

// A text as a run's name that fits files and job scripts: letters, digits, ".", "_" and
// "-" stay, anything else becomes "-"; "model" for nothing.
std::string plain_name(std::string text);

}  // namespace trireme::app
