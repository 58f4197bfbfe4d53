// What uses a group: FP8's magnitudes, experts, gradients, tied embeddings.
// SPDX-License-Identifier: Apache-2.0
#include "engine/group_use.hpp"

#include "engine/run_outlook.hpp"

namespace trireme::engine {

comm::GroupUse group_use(const config::RunConfig& config) {
  const bool experts = config.model.has_experts();  // ranks sum up their loads
  const bool shards = config.parallel.sharding != optim::Sharding::none;
  const schedule::PipelineShape shape = pipeline_shape(config);
  const int last = stages(shape) - 1;
  const bool ends_together = place_of(shape, 0).rank == place_of(shape, last).rank;
  return {.pipeline = experts,
          .data = false,
          .context = config.parallel.ulysses || config.model.has_linear() ||
                     config.precision.recipe.fp8() || experts || config.learns_pairs(),
          .replicas = !shards || experts,
          .expert_replicas = !shards,
          .embedding = config.model.tie_embeddings && !ends_together};
}

}  // namespace trireme::engine
