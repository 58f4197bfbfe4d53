// All rules, in the order in which a message names them.
// SPDX-License-Identifier: Apache-2.0
#include "config/rules.hpp"

namespace trireme::config {
namespace {

void judge(RuleState& state) {
  RunRules run(state);
  MeshRules mesh(state);
  MemoryRules memory(state);
  DataRules data(state);
  OptimizerRules optimizer(state);
  HealthRules health(state);
  run.run_rules();
  GraphRules(state).graph_rules();
  ModelRules(state).model_rules();
  mesh.tensor_rules();
  mesh.context_rules();
  ExpertRules(state).expert_rules();
  mesh.pipeline_rules();
  memory.sharding_rules();
  memory.recompute_rules();
  run.batch_rules();
  data.ramp_rules();
  data.skip_rules();
  run.size_rules();
  run.data_rules();
  data.sample_rules();
  data.profile_rules();
  data.infilling_rules();
  data.preference_rules();
  PrecisionRules(state).precision_rules();
  optimizer.optimizer_rules();
  OuterRules(state).outer_rules();
  ReproducibleRules(state).reproducible_rules();
  AdapterRules(state).adapter_rules();
  optimizer.group_rules();
  health.health_rules();
  health.debug_rules();
}

}  // namespace

BrokenRules check_rules(const io::Deck& deck, const RunConfig& config, int ranks,
                        int ranks_on_node, bool stored) {
  RuleState state(deck, config, ranks, ranks_on_node);
  state.stored = stored;
  state.broken.problems = not_available_yet(deck);
  state.broken.only_ranks = state.broken.problems.empty();
  judge(state);
  return std::move(state.broken);
}

std::set<std::string> names_of_broken_rules(const io::Deck& deck, const RunConfig& config,
                                            int ranks, int ranks_on_node) {
  RuleState state(deck, config, ranks, ranks_on_node);
  state.quiet = true;
  judge(state);
  return std::move(state.names);
}

}  // namespace trireme::config
