// The table of optimizers.
// SPDX-License-Identifier: Apache-2.0
#include "optim/update_rules.hpp"

#include "base/error.hpp"

namespace trireme::optim {
const UpdateRule* find_update_rule(std::string_view name, double beta1) {
  const UpdateRule* found = nullptr;
  for (const UpdateRule& rule : update_rules) {
    if (rule.name == name && (found == nullptr || beta1 == 0)) found = &rule;
  }
  return found;
}

const UpdateRule& update_rule(std::string_view name, double beta1) {
  const UpdateRule* found = find_update_rule(name, beta1);
  require(found != nullptr, "no optimizer is called '{}'", name);
  return *found;
}

}  // namespace trireme::optim
