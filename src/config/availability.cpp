// What decks can ask for and this version cannot do yet: each is an error, none is
// ignored.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>

#include "config/rules.hpp"
#include "config/run_precision.hpp"
#include "optim/stored_numbers.hpp"
#include "optim/update_rules.hpp"

namespace trireme::config {

namespace {

// Each row names the values that can be had; a feature that comes is a row that goes.
struct TextChoice {
  std::string_view key, allowed, feature;
};
const std::array unavailable_texts = {
    TextChoice{"model.from", "", "starting from another model is"},
    TextChoice{"data.source", "bytes|tokens|synthetic", "this source is"},
    TextChoice{"data.tokenizer", "", "tokenizers are"},
    TextChoice{"parallel.offload", "none|optimizer|weights", "offloading activations is"},
    TextChoice{"optimizer.name", optim::update_rule_names(), "this optimizer is"},
};
struct BooleanChoice {
  std::string_view key;
  bool allowed;
  std::string_view feature;
};
constexpr std::array unavailable_booleans = {
    BooleanChoice{"comm.deterministic", true, "summing in any order is"},
};

// Classes of tensors that are kept or sent.
constexpr std::array kept_classes = {
    TensorClass::weight,           TensorClass::master,
    TensorClass::gradient,         TensorClass::gradient_sum,
    TensorClass::moment1,          TensorClass::moment2,
    TensorClass::gradient_traffic, TensorClass::weight_traffic,
    TensorClass::pipeline_traffic, TensorClass::tensor_traffic};

// The classes of the deck's recipe that cannot be had, by the key that asks for them.
void add_classes(const io::Deck& deck, std::vector<io::DeckProblem>& out) {
  const Recipe recipe = read_precision(deck).recipe;
  std::string key, wanted;
  for (const TensorClass what : kept_classes) {
    const std::string_view why = optim::cannot_keep(recipe, what);
    if (why.empty()) continue;
    std::string_view by = "precision.recipe";
    for (const ClassKey& row : class_keys())
      if (deck.text(row.key) != "auto" &&
          std::find(row.classes.begin(), row.classes.end(), what) != row.classes.end())
        by = row.key;
    if (key.empty()) key = by;
    if (key == by)
      wanted += format("{}{} in {} ({})", wanted.empty() ? "" : ", ", name_of(what),
                       name_of(recipe[what].type), why);
  }
  if (wanted.empty()) return;
  out.push_back({deck.where(key), key, deck.value_text(key),
                 format("{}: not available yet; write {} = \"auto\"", wanted, key)});
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
  for (const auto& row : unavailable_booleans)
    if (deck.boolean(row.key) != row.allowed)
      add(row.key, row.feature, row.allowed ? "true" : "false");
  add_classes(deck, out);
  return out;
}

}  // namespace trireme::config
