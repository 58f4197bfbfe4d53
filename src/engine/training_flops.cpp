// What a run trains: groups, adapters, and the FLOPs that follow.
// SPDX-License-Identifier: Apache-2.0
#include "engine/training_flops.hpp"

#include <algorithm>

#include "model/adapted_modules.hpp"
#include "optim/parameter_groups.hpp"

namespace trireme::engine {

void mark_training(const config::RunConfig& config, Param& param) {
  optim::apply_groups(config.optimizer, param);
  model::freeze_base(config.adapter.matrices, param);
}

model::FlopsPerToken training_flops(const config::RunConfig& config) {
  const auto& groups = config.optimizer.groups;
  const bool freezes =
      config.adapter.matrices.exists() ||
      std::any_of(groups.begin(), groups.end(), [](const auto& g) { return g.frozen; });
  if (!freezes) return model::flops_per_token(config.model);
  return model::flops_per_token(
      config.model, {.adapter = config.adapter.matrices,
                     .freeze = [&](Param& param) { mark_training(config, param); }});
}

}  // namespace trireme::engine
