// Keys of a first deck, and their comments.
// SPDX-License-Identifier: Apache-2.0
#include "app/init_deck.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/text.hpp"
#include "config/deck_table.hpp"
#include "config/start_model.hpp"
#include "io/deck_toml.hpp"
#include "model/stage.hpp"

namespace trireme::app {
namespace {

std::string quoted_list(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts)
    list += format("{}{}", list.empty() ? "" : ", ", io::quote_toml(text));
  return "[" + list + "]";
}

// "a.b = c" as a line.
DeckLine line_of(const std::string& text) {
  const auto at = text.find(" = ");
  return {text.substr(0, at), text.substr(at + 3)};
}

bool learns_pairs(const InitAnswers& answers) { return answers.source == "preference"; }

// Usual rates of AdamW for a batch of some hundred thousand tokens.
DeckLine learning_rate(const InitAnswers& answers) {
  const std::string key = "optimizer.learning_rate";
  if (learns_pairs(answers))
    return {key, answers.part == TrainedPart::adapters ? "1e-5" : "1e-6",
            "preferences want smaller rates than texts"};
  if (answers.part == TrainedPart::adapters)
    return {key, "2e-4", "adapters bear larger rates than the weights"};
  if (answers.part == TrainedPart::all_weights)
    return {key, "1e-5", "small: the model knows something already"};
  const auto weights = static_cast<double>(model::parameter_count(answers.model.model));
  if (weights < 2e7) return {key, "3e-3", "small models bear large rates"};
  return {key,
          weights < 1e9    ? "6e-4"
          : weights < 1e10 ? "3e-4"
                           : "1.5e-4",
          "the larger the model, the smaller the rate"};
}

void add_model(const InitAnswers& answers, bool whole, std::vector<DeckLine>& lines) {
  if (answers.part != TrainedPart::new_model && !whole) {
    lines.push_back({"model.from", io::quote_toml(answers.model.weights),
                     "its weights and its shape"});
    lines.push_back({"model.sequence", std::to_string(answers.sequence)});
  } else {
    model::ModelConfig model = answers.model.model;
    model.sequence = answers.sequence;
    model.own_positions = 0;
    for (const std::string& text : config::model_lines(model))
      lines.push_back(line_of(text));
  }
  if (answers.part == TrainedPart::adapters) lines.push_back({"adapter.rank", "16"});
}

void add_data(const InitAnswers& answers, std::vector<DeckLine>& lines) {
  const bool none = answers.source == "synthetic";
  if (learns_pairs(answers))
    lines.push_back({"train.objective", "\"dpo\"",
                     "pairs of answers, held to the model before its first step"});
  lines.push_back({"data.source", io::quote_toml(answers.source),
                   none
                       ? "nothing is learned from it: write what your files are (tokens, "
                         "text, bytes, ...) and name them in data.paths"
                       : ""});
  if (none) return;
  lines.push_back({"data.paths", quoted_list(answers.paths)});
  if (!answers.tokenizer.empty() && answers.source != "bytes")
    lines.push_back({"data.tokenizer", io::quote_toml(answers.tokenizer)});
}

}  // namespace

std::vector<DeckLine> deck_lines(const InitAnswers& answers, const InitMachine& on,
                                 const std::string& name, bool whole) {
  const std::int64_t steps = answers.steps;
  std::vector<DeckLine> lines = {
      {"run.name", io::quote_toml(name), format("the run writes below runs/{}", name)},
      {"run.steps", std::to_string(steps)},
      {"batch.global", std::to_string(answers.batch),
       format("sequences of a step: {} tokens", answers.batch * answers.sequence)}};
  add_model(answers, whole, lines);
  add_data(answers, lines);
  lines.push_back({"precision.compute", on.machine.gpus ? "\"bf16\"" : "\"fp32\"",
                   on.machine.gpus ? "of products and activations; what the optimizer "
                                     "updates stays in fp32"
                                   : "of products and activations"});
  lines.push_back(learning_rate(answers));
  lines.push_back({"optimizer.schedule.name", "\"cosine\""});
  lines.push_back({"optimizer.schedule.warmup", std::to_string(steps / 20),
                   "steps, a twentieth of the run"});
  lines.push_back(
      {"checkpoint.every",
       std::to_string(std::max<std::int64_t>(1, std::min<std::int64_t>(steps / 4, 500))),
       "steps; stop at any time and run the same command again"});
  lines.push_back({"checkpoint.keep", "2"});
  lines.push_back({"metrics.every", steps >= 100 ? "10" : "1",
                   "steps between lines of the log; metrics.jsonl has all of them"});
  return lines;
}

std::string plain_text(const std::vector<DeckLine>& lines) {
  std::string text;
  for (const DeckLine& line : lines) text += format("{} = {}\n", line.key, line.value);
  return text;
}

namespace {

// A comment above the key, as a sentence.
std::string comment(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  if (text.back() != '.') text += '.';
  std::istringstream words(wrapped(text, 94, 0));
  std::string out;
  for (std::string line; std::getline(words, line);) out += format("# {}\n", line);
  return out;
}

}  // namespace

std::string commented_text(const std::string& head, const std::vector<DeckLine>& lines) {
  std::string text = head;
  std::string_view section;
  std::size_t written = 0;
  for (const io::DeckKey& key : config::deck_table()) {
    const auto line = std::find_if(lines.begin(), lines.end(), [&](const DeckLine& one) {
      return one.key == full_name(key);
    });
    if (line == lines.end()) continue;
    if (key.section != section) text += format("\n[{}]\n", key.section);
    section = key.section;
    text += comment(line->why.empty() ? std::string(key.doc) : line->why);
    text += format("{} = {}\n", key.name, line->value);
    ++written;
  }
  require(written == lines.size(), "a line of a deck has a key that is not in the table");
  return text;
}

}  // namespace trireme::app
