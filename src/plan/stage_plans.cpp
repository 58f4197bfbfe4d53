// A plan for each pipeline stage: of the tensor rank that holds most.
// SPDX-License-Identifier: Apache-2.0
#include "base/side_by_side.hpp"
#include "base/split.hpp"
#include "plan/plan.hpp"
#include "schedule/shared_schedules.hpp"

namespace trireme::plan {
namespace {

// Key/value heads of a tensor rank: those that serve any of its query heads.
std::int64_t key_heads(const config::RunConfig& config, int tensor_rank) {
  const auto& model = config.model;
  const std::int64_t each = model.heads / model.kv_heads;
  const Range queries =
      split_range(model.heads, config.parallel.mesh.tensor, tensor_rank);
  return divide_up(queries.end, each) - queries.begin / each;
}

// Of the tensor ranks of a stage, those of which one holds most. The first has the
// largest part of all that is split, but for key/value heads: those that are not divided
// by the ranks are on several of them, and some then have one more.
std::vector<int> largest_tensor_ranks(const config::RunConfig& config) {
  std::vector<int> largest = {0};
  for (int t = 1; t < config.parallel.mesh.tensor; ++t)
    if (key_heads(config, t) > key_heads(config, largest.back())) largest.push_back(t);
  return largest;
}

}  // namespace

std::vector<Plan> plan_stages(const config::RunConfig& config, const PlannedDevice& on) {
  const auto& mesh = config.parallel.mesh;
  const std::vector<int> tensor_ranks = largest_tensor_ranks(config);
  std::vector<Plan> plans(static_cast<std::size_t>(mesh.pipeline));
  // The engine of each stage asks for these.
  const auto schedules = schedule::shared_schedules(engine::pipeline_shape(config));
  side_by_side(
      plans.size(), static_cast<std::size_t>(on.threads), [&](std::size_t stage) {
        const int first = static_cast<int>(stage) * (mesh.size() / mesh.pipeline);
        for (const int t : tensor_ranks) {
          Plan plan = make_plan(config, first + t, on);
          if (t == 0 || plan.total_memory() > plans[stage].total_memory())
            plans[stage] = std::move(plan);
        }
      });
  return plans;
}

}  // namespace trireme::plan
