// All rules, in the order in which a message names them.
// SPDX-License-Identifier: Apache-2.0
#include "config/rules.hpp"

namespace trireme::config {

BrokenRules check_rules(const io::Deck& deck, const RunConfig& config, int ranks,
                        int ranks_on_node) {
  return Rules(deck, config, ranks, ranks_on_node).check();
}

BrokenRules Rules::check() {
  broken_.problems = not_available_yet(deck_);
  broken_.only_ranks = broken_.problems.empty();
  judge();
  return std::move(broken_);
}

std::set<std::string> Rules::names_of_broken() {
  quiet_ = true;
  judge();
  return std::move(names_);
}

void Rules::judge() {
  run_rules();
  graph_rules();
  model_rules();
  tensor_rules();
  context_rules();
  expert_rules();
  pipeline_rules();
  sharding_rules();
  recompute_rules();
  batch_rules();
  ramp_rules();
  skip_rules();
  size_rules();
  data_rules();
  sample_rules();
  infilling_rules();
  preference_rules();
  precision_rules();
  optimizer_rules();
  outer_rules();
  adapter_rules();
  group_rules();
  health_rules();
  debug_rules();
}

}  // namespace trireme::config
