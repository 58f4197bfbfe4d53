// What decks can ask for and this version cannot do yet.
// SPDX-License-Identifier: Apache-2.0
// Each is an error, none is ignored.
#include <algorithm>
#include <array>
#include <string_view>

#include "config/precision.hpp"
#include "config/rules.hpp"
#include "optim/stored_numbers.hpp"

namespace trireme::config {

namespace {

// A key that takes no other value than its default yet: decks in force have it written
// out, so it stays a key.
struct ComingKey {
  const io::DeckKey& key;
  std::string_view feature;
};
constexpr std::array coming_keys = {
    ComingKey{key::comm.deterministic, "summing in any order is"},
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
  const Recipe recipe = read_recipe(deck);
  const io::DeckKey* key = nullptr;
  std::string wanted;
  for (const TensorClass what : kept_classes) {
    const std::string_view why = optim::cannot_keep(recipe, what);
    if (why.empty()) continue;
    const io::DeckKey* by = &key::precision.recipe;
    for (const ClassKey& row : class_keys())
      if (deck[row.key] &&
          std::find(row.classes.begin(), row.classes.end(), what) != row.classes.end())
        by = &row.key;
    if (key == nullptr) key = by;
    if (key == by)
      wanted += format("{}{} in {} ({})", wanted.empty() ? "" : ", ", name_of(what),
                       name_of(recipe[what].type), why);
  }
  if (wanted.empty()) return;
  const std::string name = full_name(*key);
  out.push_back({deck.where(name), name, deck.value_text(name),
                 format("{}: not available yet; write {} = \"auto\"", wanted, name)});
}

}  // namespace

std::vector<io::DeckProblem> not_available_yet(const io::Deck& deck) {
  std::vector<io::DeckProblem> out;
  for (const ComingKey& row : coming_keys)
    if (!deck.is_default(row.key))
      out.push_back({deck.where(row.key), full_name(row.key), deck.value_text(row.key),
                     format("{} not available yet; write {} = {}", row.feature,
                            full_name(row.key), row.key.fallback)});
  add_classes(deck, out);
  return out;
}

}  // namespace trireme::config
