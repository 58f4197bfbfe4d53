// Rules about run.cuda_graphs: what can be recorded once and launched again.
// SPDX-License-Identifier: Apache-2.0
// The page docs/decisions/cuda-graphs.md says why.
#include "config/recorded_sums.hpp"
#include "config/rules.hpp"

namespace trireme::config {
namespace {

// Why modules do not read the weights, and add to the sums of gradients, as these are
// kept; empty if they do.
std::string misfit_of(const Recipe& recipe, bool shards, bool error_feedback) {
  const auto type = [&](TensorClass what) { return recipe[what].type; };
  const DType module = type(TensorClass::activation), weight = type(TensorClass::weight),
              accumulator = accumulator_of(module);
  // FP8 codes are made of weights as they are kept.
  if (weight != module && (!recipe.fp8() || is_fp8(weight)))
    return format("keeps weights in {} that modules read in {}", name_of(weight),
                  name_of(module));
  for (const TensorClass what : {TensorClass::gradient, TensorClass::gradient_sum})
    if (type(what) != accumulator)
      return format("keeps {} in {} that modules add to in {}", name_of(what),
                    name_of(type(what)), name_of(accumulator));
  if (shards && (error_feedback || is_fp8(type(TensorClass::gradient_traffic))))
    return "sends sharded gradients at scales that the host makes in each microbatch";
  return {};
}

Advice without() { return {key::run.cuda_graphs, {"false"}}; }

}  // namespace

void GraphRules::graph_rules() {
  if (!config_.run.cuda_graphs) return;
  const std::string graphs = show(key::run.cuda_graphs);
  rule({key::run.cuda_graphs, key::run.device}, config_.run.device == DeviceChoice::cuda,
       graphs, " launches on a GPU, but ", key::run.device, " may take none", [&] {
         return advise({{key::run.device, {"\"cuda\""}}, without()});
       });
  rule({key::run.cuda_graphs, key::model.architecture}, !config_.model.has_experts(),
       graphs, " with ", key::model.architecture,
       ", whose experts get another number of tokens each time", [&] {
         return advise({{key::model.architecture, {"\"llama\""}}, without()});
       });
  const Recipe& recipe = config_.precision.recipe;
  const std::string misfit =
      misfit_of(recipe, config_.parallel.sharding >= optim::Sharding::gradients,
                config_.precision.error_feedback);
  rule(
      {key::run.cuda_graphs, key::precision.recipe, key::precision.compute},
      misfit.empty(), graphs,
      [&] { return format(" with precision.recipe = \"{}\", which ", recipe.name); },
      misfit,
      [&] {
        return advise(
            {{key::precision.recipe,
              {"\"te_current\"", "\"bf16\"", "\"fp16\"", "\"fp32\"", "\"fp64\""}},
             {key::precision.weights, {"\"auto\""}},
             {key::precision.error_feedback, {"false"}},
             {key::precision.gradient_reduce, {"\"auto\""}},
             {key::precision.compute, {"\"bf16\""}},
             without()});
      });
  graph_mesh_rules();
}

// Ranks, what they shard, and schedules.
void GraphRules::graph_mesh_rules() {
  const std::string graphs = show(key::run.cuda_graphs);
  const auto& mesh = config_.parallel.mesh;
  const bool records = config_.run.backend == comm::Backend::nccl;
  const auto axis = [&](const io::DeckKey& key, int ranks) {
    rule({key::run.cuda_graphs, key, key::comm.backend}, ranks == 1 || records, graphs,
         " with ", key,
         ", whose ranks send messages inside a microbatch, which only NCCL can record, "
         "but ",
         key::comm.backend, " may take MPI", [&] {
           return advise({{key::comm.backend, {"\"nccl\""}}, {key, {"1"}}, without()});
         });
  };
  axis(key::parallel.tensor, mesh.tensor);
  axis(key::parallel.context, mesh.context);
  const ParallelSettings& p = config_.parallel;
  const bool shards = p.sharding >= optim::Sharding::gradients;
  rule({key::run.cuda_graphs, key::parallel.sharding_strategy, key::comm.backend},
       !shards || p.folding.shard == 1 || records, graphs, " with ",
       key::parallel.sharding_strategy,
       ", which gathers or reduces inside a microbatch, which only NCCL can record, but ",
       key::comm.backend, " may take MPI", [&] {
         return advise({{key::comm.backend, {"\"nccl\""}},
                        {key::parallel.sharding_strategy, {"\"ZERO1\"", "\"NO_SHARD\""}},
                        without()});
       });
  const int replicas = mesh.data * mesh.context;
  const bool sums_copies = replicas > (shards ? p.folding.shard : 1);
  rule({key::run.cuda_graphs, key::batch.global, key::parallel.sharding_strategy},
       !sums_copies || config_.microbatches() > 1 || records_sums(config_), graphs,
       " with ", key::batch.global, " and ", key::batch.micro,
       ", which is one microbatch a step and data rank: gradients are summed over "
       "replicas between the kernels of its backward, which can be recorded by NCCL "
       "without a pipeline",
       [&] {
         return advise({{key::comm.backend, {"\"nccl\""}},
                        {key::parallel.sharding_strategy, {"\"FULL_SHARD\""}},
                        {key::batch.global,
                         multiples_from(2 * config_.batch.global, config_.batch.global)},
                        without()});
       });
  rule({key::run.cuda_graphs, key::parallel.offload}, !optim::moves_weights(p.offload),
       graphs, " with ", key::parallel.offload,
       ", whose weights the host brings to the GPU in each microbatch", [&] {
         return advise(
             {{key::parallel.offload, {"\"optimizer\"", "\"none\""}}, without()});
       });
}

}  // namespace trireme::config
