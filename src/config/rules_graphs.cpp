// Rules about run.cuda_graphs: what can be recorded once and launched again
// (docs/decisions/cuda-graphs.md).
// SPDX-License-Identifier: Apache-2.0
#include "config/rules.hpp"

namespace trireme::config {
namespace {

// Why modules do not read the weights, and add to the sums of gradients, as these are
// kept; empty if they do.
std::string misfit_of(const Recipe& recipe) {
  const auto type = [&](TensorClass what) { return recipe[what].type; };
  const DType module = type(TensorClass::activation), wide = accumulator_of(module);
  if (recipe.fp8()) return "multiplies in FP8, with scales that the host keeps";
  if (type(TensorClass::weight) != module)
    return format("keeps weights in {} that modules read in {}",
                  name_of(type(TensorClass::weight)), name_of(module));
  for (const TensorClass what : {TensorClass::gradient, TensorClass::gradient_sum})
    if (type(what) != wide)
      return format("keeps {} in {} that modules add to in {}", name_of(what),
                    name_of(type(what)), name_of(wide));
  return {};
}

Advice without() { return {"run.cuda_graphs", {"false"}}; }

}  // namespace

void Rules::graph_rules() {
  if (!config_.run.cuda_graphs) return;
  const std::string graphs = show("run.cuda_graphs");
  rule(
      {"run.cuda_graphs", "run.device"}, [&] { return config_.run.device == "cuda"; },
      [&] {
        return graphs + " launches on a GPU, but " + show("run.device") +
               " may take none" + advise({{"run.device", {"\"cuda\""}}, without()});
      });
  rule(
      {"run.cuda_graphs", "model.architecture"},
      [&] { return !config_.model.has_experts(); },
      [&] {
        return graphs + " with " + show("model.architecture") +
               ", whose experts get another number of tokens each time" +
               advise({{"model.architecture", {"\"llama\""}}, without()});
      });
  rule(
      {"run.cuda_graphs", "parallel.sharding_strategy"},
      [&] { return config_.parallel.sharding <= optim::Sharding::optimizer; },
      [&] {
        return graphs + " with " + show("parallel.sharding_strategy") +
               ", which gathers weights or reduces gradients inside a microbatch" +
               advise({{"parallel.sharding_strategy", {"\"ZERO1\"", "\"NO_SHARD\""}},
                       without()});
      });
  const Recipe& recipe = config_.precision.recipe;
  const std::string misfit = misfit_of(recipe);
  rule(
      {"run.cuda_graphs", "precision.recipe", "precision.compute"},
      [&] { return misfit.empty(); },
      [&] {
        return graphs + format(" with precision.recipe = \"{}\", which ", recipe.name) +
               misfit +
               advise({{"precision.recipe",
                        {"\"bf16\"", "\"fp16\"", "\"fp32\"", "\"fp64\""}},
                       {"precision.weights", {"\"auto\""}},
                       {"precision.compute", {"\"bf16\""}},
                       without()});
      });
  graph_mesh_rules();
}

// Ranks and schedules.
void Rules::graph_mesh_rules() {
  const std::string graphs = show("run.cuda_graphs");
  const auto& mesh = config_.parallel.mesh;
  const auto axis = [&](std::string_view key, int ranks) {
    rule(
        {"run.cuda_graphs", key}, [&] { return ranks == 1; },
        [&] {
          return graphs + " with " + show(key) +
                 ", whose ranks send messages inside a microbatch, which are not "
                 "recorded" +
                 advise({{std::string(key), {"1"}}, without()});
        });
  };
  axis("parallel.tensor", mesh.tensor);
  axis("parallel.context", mesh.context);
  axis("parallel.pipeline", mesh.pipeline);
  const schedule::ScheduleKind schedule = config_.parallel.schedule;
  rule(
      {"run.cuda_graphs", "parallel.schedule"},
      [&] {
        return mesh.pipeline > 1 || schedule == schedule::ScheduleKind::gpipe ||
               schedule == schedule::ScheduleKind::one_f_one_b;
      },
      [&] {
        return graphs + " with " + show("parallel.schedule") +
               ", which puts work off that is not recorded" +
               advise({{"parallel.schedule", {"\"1f1b\"", "\"gpipe\""}}, without()});
      });
}

}  // namespace trireme::config
