// What decks can ask for and this version cannot do yet: each is an error, none is
// ignored.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string_view>

#include "train/run_rules.hpp"

namespace trireme::train {

namespace {

// Each row names the values that can be had; a feature that comes is a row that goes.
struct TextChoice {
  std::string_view key, allowed, feature;
};
constexpr std::array unavailable_texts = {
    TextChoice{"model.from", "", "starting from another model is"},
    TextChoice{"data.source", "bytes|tokens|synthetic", "this source is"},
    TextChoice{"data.tokenizer", "", "tokenizers are"},
    TextChoice{"parallel.offload", "none|optimizer|weights", "offloading activations is"},
    TextChoice{"precision.compute", "fp64|fp32|bf16", "this type is"},
    TextChoice{"precision.recipe", "none", "fp8 is"},
    TextChoice{"optimizer.name", "adamw|sgd", "this optimizer is"},
};
struct IntegerChoice {
  std::string_view key;
  std::int64_t allowed;
  std::string_view feature;
};
constexpr std::array unavailable_integers = {
    IntegerChoice{"health.check_replicas_every", 0, "comparing replicas is"},
};
struct BooleanChoice {
  std::string_view key;
  bool allowed;
  std::string_view feature;
};
constexpr std::array unavailable_booleans = {
    BooleanChoice{"comm.deterministic", true, "summing in any order is"},
    BooleanChoice{"metrics.tensorboard", false, "TensorBoard output is"},
};

// "a|b" holds "b".
bool among(std::string_view choices, std::string_view value) {
  while (true) {
    const auto bar = choices.find('|');
    if (choices.substr(0, bar) == value) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

// a|b as "a" or "b".
std::string alternatives(std::string_view choices) {
  std::string out = "\"";
  for (const char c : choices) out += c == '|' ? "\" or \"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::vector<io::DeckProblem> not_available_yet(const io::Deck& deck) {
  std::vector<io::DeckProblem> out;
  const auto add = [&](std::string_view key, std::string_view feature,
                       const std::string& allowed) {
    out.push_back({deck.where(key), std::string(key), deck.value_text(key),
                   format("{} not available yet; write {} = {}", feature, key, allowed)});
  };
  for (const auto& row : unavailable_texts)
    if (!among(row.allowed, deck.text(row.key)))
      add(row.key, row.feature, alternatives(row.allowed));
  for (const auto& row : unavailable_integers)
    if (deck.integer(row.key) != row.allowed)
      add(row.key, row.feature, std::to_string(row.allowed));
  for (const auto& row : unavailable_booleans)
    if (deck.boolean(row.key) != row.allowed)
      add(row.key, row.feature, row.allowed ? "true" : "false");
  return out;
}

}  // namespace trireme::train
