// Rules about the deck's debug section.
// SPDX-License-Identifier: Apache-2.0
#include "config/fault.hpp"
#include "config/rules.hpp"

namespace trireme::config {

void HealthRules::debug_rules() {
  const auto steps_rule = [&](const io::DeckKey& key,
                              const std::vector<std::int64_t>& steps) {
    rule(
        {key, key::run.steps},
        [&] {
          return std::all_of(steps.begin(), steps.end(),
                             [&](auto step) { return step <= config_.run.steps; });
        },
        key, " names a step after ", key::run.steps, ", the last: remove it");
  };
  steps_rule(key::debug.dump_gradients, config_.debug.dump_gradients);
  steps_rule(key::debug.dump_samples, config_.debug.dump_samples);
  if (!config_.debug.fault.empty()) fault_rule();
}

void HealthRules::fault_rule() {
  // 1. kind@step@rank
  const auto fault = parse_fault(config_.debug.fault);
  rule({key::debug.fault}, fault.has_value(), key::debug.fault,
       " must be kind@step@rank with kind ", fault_kinds_text(),
       ": write \"kill@3@0\" to kill rank 0 in step 3");
  if (!fault) return;
  const auto [kind, step, rank] = *fault;
  // 2. A step and a rank that exist.
  rule({key::debug.fault}, step > 0 || stops_process(kind), key::debug.fault,
       " names the start, at which there is no model yet: write step 1 or later");
  rule({key::debug.fault, key::run.steps}, step <= config_.run.steps, key::debug.fault,
       " names a step after ", key::run.steps, ", the last: write an earlier step");
  rule({key::debug.fault, key::data.skip_steps}, !config_.passes_over(step),
       key::debug.fault, " names a step that nothing is done in by ",
       key::data.skip_steps, ": write another step");
  rule({key::debug.fault, key::train.objective},
       kind != FaultKind::kill_reference || config_.learns_pairs(), key::debug.fault,
       " wants a reference model, which only ", key::train.objective,
       " = \"dpo\" has: set that, or write another kind");
  rule({key::debug.fault, key::optimizer.name, key::optimizer.betas},
       kind != FaultKind::flip_moment || config_.optimizer.keeps_state(),
       key::debug.fault, " changes a moment, but ", key::optimizer.name, " with ",
       key::optimizer.betas, " keeps none: write debug.fault = \"flip_mantissa@",
       std::to_string(step), "@", std::to_string(rank), "\"");
  rule({key::debug.fault, key::run.device},
       kind != FaultKind::flip_gradient || config_.run.device != DeviceChoice::cuda,
       key::debug.fault, " changes gradients of CPUs alone, but ", key::run.device,
       ": write debug.fault = \"flip_mantissa@", std::to_string(step), "@",
       std::to_string(rank), "\"");
  ranks_rule({key::debug.fault}, rank < ranks_, key::debug.fault, [&, rank = rank] {
    return format(" names rank {}, but the number of ranks is {}: write a rank below {}",
                  rank, ranks_, ranks_);
  });
}

}  // namespace trireme::config
