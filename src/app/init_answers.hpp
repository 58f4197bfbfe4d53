// InitAnswers: the questions of `trireme init`, and what is made of the answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/interview.hpp"
#include "app/named_model.hpp"
#include "plan/machine.hpp"

namespace trireme::app {

// What is trained: a new model, all of a model's weights, or adapters beside them.
enum class TrainedPart : std::uint8_t { new_model, all_weights, adapters };

struct InitAnswers {
  NamedModel model;
  TrainedPart part = TrainedPart::new_model;
  std::string source = "synthetic";  // data.source
  std::vector<std::string> paths{};  // data.paths
  std::string tokenizer{};           // data.tokenizer
  int ranks = 1;
  std::int64_t sequence = 0, batch = 0, steps = 0;
};

// Where the ranks are to compute: of a machine file, or as far as this node shows it.
struct InitMachine {
  plan::Machine machine;
  bool measured = false;        // a machine file: times mean something
  std::int64_t node_ranks = 1;  // a rank for each GPU, or core
  std::int64_t cores = 1;       // of this node
  std::string memory_from;      // who says how much a rank has
};

// --machine FILE, or this node. Throws as plan::read_machine().
InitMachine look_at_machine(const Arguments& arguments);

// The first question's default, a Llama of 0.9 M weights; "125m", "350m", "1.3b", "2.7b"
// and "6.7b" are larger ones.
NamedModel sized_model(const std::string& size);
bool is_size(const std::string& word);

// Asks; arguments: parsed, with the model as a word where it was given. Throws as
// Interview::ask().
InitAnswers ask_all(const Arguments& arguments, Interview& interview,
                    const InitMachine& on);

// A rank's memory where `ranks` ranks are started: of a GPU or a machine file its own, of
// this node a share.
double rank_memory(const InitMachine& on, int ranks);

}  // namespace trireme::app
