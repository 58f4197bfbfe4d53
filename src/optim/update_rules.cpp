// The table of optimizers.
// SPDX-License-Identifier: Apache-2.0
#include "optim/update_rules.hpp"

#include <string>

#include "base/error.hpp"

namespace trireme::optim {
namespace {

using kernels::UpdateFormula;

constexpr std::array rules = {
    UpdateRule{"adamw", UpdateFormula::adamw},
    UpdateRule{"sgd", UpdateFormula::momentum},
    UpdateRule{"sgd", UpdateFormula::sgd},  // without momentum
    UpdateRule{"lion", UpdateFormula::lion},
    UpdateRule{"muon", UpdateFormula::adamw, UpdateKind::matrices},
};

}  // namespace

const UpdateRule* find_update_rule(std::string_view name, double beta1) {
  const UpdateRule* found = nullptr;
  for (const UpdateRule& rule : rules) {
    if (rule.name == name && (found == nullptr || beta1 == 0)) found = &rule;
  }
  return found;
}

const UpdateRule& update_rule(std::string_view name, double beta1) {
  const UpdateRule* found = find_update_rule(name, beta1);
  require(found != nullptr, "no optimizer is called '{}'", name);
  return *found;
}

std::string_view update_rule_names() {
  static const std::string names = [] {
    std::string all, last;
    for (const UpdateRule& rule : rules) {
      if (rule.name != last) all += (all.empty() ? "" : "|") + std::string(rule.name);
      last = rule.name;
    }
    return all;
  }();
  return names;
}

}  // namespace trireme::optim
