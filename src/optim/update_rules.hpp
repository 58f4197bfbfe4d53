// The table of optimizers: what each keeps of a weight, and by which formula it moves it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/recipe.hpp"
#include "kernels/optimizer.hpp"

namespace trireme::optim {

// The states that a rule may keep of each element, by their place: their names in
// checkpoints, below "optimizer/", and the classes whose types a recipe chooses.
inline constexpr std::size_t most_states = kernels::most_states;
inline constexpr std::array<std::string_view, most_states> state_sections = {
    "optimizer/moment1", "optimizer/moment2"};
inline constexpr std::array<std::string_view, most_states> scale_sections = {
    "optimizer/moment1_scale", "optimizer/moment2_scale"};
inline constexpr std::array<TensorClass, most_states> state_classes = {
    TensorClass::moment1, TensorClass::moment2};

// What a rule needs to see at once. matrices: a rule for whole matrices, beside which all
// other tensors, and tables of embeddings and of the head, follow the formula.
enum class UpdateKind : std::uint8_t { elementwise, matrices };

// A row. Layout, sharding, types in fewer bits, checkpoints and offload follow from it.
struct UpdateRule {
  std::string_view name;           // the deck's word
  kernels::UpdateFormula formula;  // of each element, in kernels/math/update.hpp
  UpdateKind kind = UpdateKind::elementwise;

  // Of an element; of a matrix whose rule is not the formula, the first of them alone.
  int states() const { return kernels::states_of(formula); }
};

// A name may have a second row, without momentum: see update_rule().
inline constexpr std::array update_rules = {
    UpdateRule{"adamw", kernels::UpdateFormula::adamw},
    UpdateRule{"sgd", kernels::UpdateFormula::momentum},
    UpdateRule{"sgd", kernels::UpdateFormula::sgd},  // without momentum
    UpdateRule{"lion", kernels::UpdateFormula::lion},
    UpdateRule{"muon", kernels::UpdateFormula::adamw, UpdateKind::matrices},
};

// The rule with a name. betas[0] = 0 is no momentum: a name may have a second row for
// it, whose rule keeps less. Throws Error(internal) if there is none.
const UpdateRule& update_rule(std::string_view name, double beta1);

// The same, or nullptr.
const UpdateRule* find_update_rule(std::string_view name, double beta1);

// All names with | between them, for the deck's table of keys.
struct UpdateRuleNames {
  std::array<char, 96> letters{};
  std::size_t length = 0;
  constexpr UpdateRuleNames() {
    std::string_view last;
    for (const UpdateRule& rule : update_rules) {
      if (rule.name == last) continue;
      if (!last.empty()) letters.at(length++) = '|';
      for (const char letter : rule.name) letters.at(length++) = letter;
      last = rule.name;
    }
  }
};
inline constexpr UpdateRuleNames update_rule_letters;
inline constexpr std::string_view update_rule_names(update_rule_letters.letters.data(),
                                                    update_rule_letters.length);

}  // namespace trireme::optim
