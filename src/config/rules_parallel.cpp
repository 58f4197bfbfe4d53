// Rules about the mesh and the pipeline.
// SPDX-License-Identifier: Apache-2.0
#include "config/rules.hpp"
#include "nn/fp8_operands.hpp"
#include "schedule/stage_cut.hpp"

namespace trireme::config {

void MeshRules::tensor_rules() {
  const auto& m = config_.model;
  const std::int64_t tensor = config_.parallel.mesh.tensor,
                     context = config_.parallel.mesh.context;
  divides({key::parallel.tensor, tensor}, {key::model.heads, m.heads});
  rule({key::parallel.tensor, key::model.feed_forward, key::model.hidden,
        key::model.architecture},
       m.feed_forward >= tensor, Resolved{key::model.feed_forward, m.feed_forward},
       " is less than ", key::parallel.tensor, [&] {
         return advise({{key::model.feed_forward, multiples_from(tensor, tensor)},
                        {key::parallel.tensor, divisors_up_to(m.heads, m.feed_forward)}});
       });
  rule({key::parallel.tensor, key::model.vocabulary, key::data.source},
       m.vocabulary == 0 || m.vocabulary >= tensor,
       Resolved{key::model.vocabulary, m.vocabulary}, " is less than ",
       key::parallel.tensor, [&] {
         return advise({{key::parallel.tensor, divisors_up_to(m.heads, m.vocabulary)}});
       });
  tensor_chunk_rules();
  rule(
      {key::batch.micro, key::model.sequence, key::parallel.tensor,
       key::parallel.sequence, key::parallel.context},
      [&] {
        return !config_.parallel.sequence || m.sequence % context != 0 ||
               config_.batch.micro * (m.sequence / context) % tensor == 0;
      },
      key::batch.micro, " x ", key::model.sequence,
      (context > 1 ? " / " + show(key::parallel.context) : std::string()),
      " must be divisible by ", key::parallel.tensor, " with ", key::parallel.sequence,
      [&] {
        return advise(
            {{key::model.sequence, multiples_from(m.sequence, tensor * context)},
             {key::parallel.sequence, {"false"}}});
      });
}

void MeshRules::tensor_chunk_rules() {
  rule({key::parallel.tensor, key::parallel.tensor_chunks},
       config_.parallel.mesh.tensor > 1 || config_.parallel.tensor_chunks <= 1,
       key::parallel.tensor_chunks, " has no meaning with ", key::parallel.tensor,
       ": write parallel.tensor_chunks = 1");
  rule({key::parallel.tensor_chunks, key::precision.recipe},
       config_.parallel.tensor_chunks <= 1 ||
           config_.cuts_rows_evenly(config_.parallel.tensor_chunks),
       key::parallel.tensor_chunks, " cuts the rows of a microbatch, of which ",
       key::precision.recipe,
       " scales blocks, into parts that are no multiples of 8: write "
       "parallel.tensor_chunks = 1");
}

void MeshRules::context_rules() {
  const auto& m = config_.model;
  const std::int64_t context = config_.parallel.mesh.context,
                     tensor = config_.parallel.mesh.tensor;
  const bool ulysses = config_.parallel.ulysses;
  const bool zigzag = config_.parallel.order == parallel::ContextOrder::zigzag;
  const std::int64_t chunks = zigzag ? 2 * context : context;
  rule(
      {key::model.sequence, key::parallel.context, key::parallel.context_order,
       key::parallel.context_method},
      [&] { return context == 1 || m.sequence % chunks == 0; }, key::model.sequence,
      " must be divisible by ", (zigzag ? "2 x " : ""), key::parallel.context,
      (zigzag ? " with zigzag order" : ""),
      [&] {
        return advise({{key::model.sequence, multiples_from(m.sequence, chunks)},
                       {key::parallel.context, divisors_up_to(m.sequence, context)}});
      });
  rule({key::parallel.context_method, key::parallel.context_order},
       !ulysses || deck_[key::parallel.context_order] != parallel::ContextOrder::zigzag,
       key::parallel.context_order, " has no meaning with ", key::parallel.context_method,
       ", where a rank sees whole sequences: write parallel.context_order = "
       "\"auto\"");
  rule(
      {key::model.heads, key::parallel.tensor, key::parallel.context,
       key::parallel.context_method},
      [&] {
        return !ulysses || m.heads % tensor != 0 || m.heads / tensor % context == 0;
      },
      key::model.heads, " / ", key::parallel.tensor, " must be divisible by ",
      key::parallel.context, " with ", key::parallel.context_method,
      [&] {
        return advise({{key::parallel.context, divisors_up_to(m.heads / tensor, context)},
                       {key::parallel.context_method, {"\"ring\""}}});
      });
}

void ExpertRules::expert_mesh_rules() {
  const model::MoeSettings& moe = config_.model.moe;
  const auto& p = config_.parallel;
  const bool mixture = config_.model.has_experts();
  const int replicas = p.mesh.data * p.mesh.context, expert = p.folding.expert;
  meaningless(key::parallel.expert, key::model.architecture, !mixture,
              ", which has no experts: write parallel.expert = 1");
  if (mixture)
    divides({key::parallel.expert, expert}, {key::moe.experts, moe.experts},
            Mend::part_or_whole);
  ranks_rule(
      {key::parallel.expert, key::parallel.tensor, key::parallel.context,
       key::parallel.pipeline},
      [&] { return replicas == 0 || replicas % expert == 0; }, key::parallel.expert,
      [&] { return format(" must divide the {} data x context ranks", replicas); },
      [&] {
        return advise({{key::parallel.expert, divisors_up_to(replicas, expert)}});
      });
  rule(
      {key::parallel.expert, key::parallel.sharding_strategy, key::parallel.shard_group,
       key::parallel.tensor, key::parallel.context, key::parallel.pipeline},
      [&] {
        return replicas == 0 || p.folding.shard % expert == 0 ||
               expert % p.folding.shard == 0;
      },
      key::parallel.expert, " and ", Resolved{key::parallel.shard_group, p.folding.shard},
      ": one must divide the other, so that expert groups and shard groups "
      "fit into each other",
      [&] {
        return advise({{key::parallel.expert, divisors_up_to(replicas, replicas)},
                       {key::parallel.shard_group, divisors_up_to(replicas, replicas)}});
      });
  expert_memory_rules();
}

// Rows are cut only where no scale is shared, so that one scale for a tensor forbids it.
// Rounds write over rows that a weight gradient which is put off would read: all but the
// last add at once to sums that must be in place then.
void ExpertRules::expert_memory_rules() {
  const auto& p = config_.parallel;
  const bool in_rounds = p.expert_memory > 0;
  rule({key::parallel.expert_memory}, !in_rounds || p.expert_memory >= 1,
       key::parallel.expert_memory,
       " is less than the even load: write 1.0 or more, or parallel.expert_memory = 0.0");
  meaningless(key::parallel.expert_memory, key::parallel.expert, p.folding.expert == 1,
              ", where a rank has all experts and its load is always even: write "
              "parallel.expert_memory = 0.0");
  const Recipe& recipe = config_.precision.recipe;
  const nn::LinearPrecision products{recipe[TensorClass::forward_operand],
                                     recipe[TensorClass::backward_operand]};
  rule(
      {key::parallel.expert_memory, key::precision.compute, key::precision.recipe},
      !in_rounds || products.rows_of_a_scale() > 0, key::parallel.expert_memory,
      " cuts rows that ", key::precision.recipe,
      [&] {
        return (deck_.is_default(key::precision.recipe)
                    ? format(" (that is, {})", recipe.name)
                    : std::string()) +
               " gives one scale, by the largest number of all rows";
      },
      [&] {
        return advise({{key::precision.recipe, {"\"mxfp8\"", "\"te_blocks\""}},
                       {key::parallel.expert_memory, {"0.0"}}});
      });
  optim::StoreConfig store;
  store.recipe = recipe;
  store.sharding = p.sharding;
  store.exact_sums = p.reproducible;
  rule(
      {key::parallel.expert_memory, key::parallel.schedule,
       key::parallel.sharding_strategy, key::precision.recipe, key::comm.reproducible},
      !in_rounds || !defers_weights(p.schedule) || !store.opens_gradients(),
      key::parallel.expert_memory, " with ", key::parallel.schedule,
      " adds to weights' gradients twice in a microbatch, which ",
      [&] {
        return store.exact_sums           ? show(key::comm.reproducible)
               : store.shards_gradients() ? show(key::parallel.sharding_strategy)
                                          : show(key::precision.recipe);
      },
      " does not have open",
      [&] {
        return advise(
            {{key::parallel.sharding_strategy, {"\"ZERO1\"", "\"NO_SHARD\""}},
             {key::precision.recipe, {"\"auto\""}},
             {key::comm.reproducible, {"false"}},
             {key::parallel.schedule, {"\"1f1b\"", "\"gpipe\"", "\"interleaved\""}},
             {key::parallel.expert_memory, {"0.0"}}});
      });
}

void MeshRules::pipeline_rules() {
  const auto& p = config_.parallel;
  const schedule::PipelineShape shape{p.schedule, p.mesh.pipeline, p.virtual_stages, 1};
  rule(
      {key::parallel.schedule, key::parallel.virtual_stages},
      [&] { return why_illegal(shape).empty(); }, key::parallel.schedule, " with ",
      key::parallel.virtual_stages, ": ", why_illegal(shape),
      [&] {
        return advise({{key::parallel.virtual_stages, {"1", "2"}},
                       {key::parallel.schedule, {"\"1f1b\"", "\"interleaved\""}}});
      });
  const std::int64_t count = std::int64_t{1} * p.mesh.pipeline * p.virtual_stages;
  rule(
      {key::model.layers, key::parallel.pipeline, key::parallel.virtual_stages},
      count <= schedule::most_stages(config_.model.layers), key::model.layers,
      " is less than ", key::parallel.pipeline, " x ", key::parallel.virtual_stages,
      [&] {
        return format(
            " = {} stages, of which only the embedding's and the head's need no block",
            count);
      },
      [&] {
        return advise({{key::model.layers, {std::to_string(count)}},
                       {key::parallel.virtual_stages, numbers(p.virtual_stages - 1, 1)},
                       {key::parallel.pipeline,
                        numbers(config_.model.layers / p.virtual_stages, 1)}});
      });
  std::int64_t sum = 0;
  for (const std::int64_t layers : p.stage_layers) sum += layers;
  rule(
      {key::parallel.stage_layers, key::model.layers, key::parallel.pipeline,
       key::parallel.virtual_stages},
      p.stage_layers.empty() ||
          (static_cast<std::int64_t>(p.stage_layers.size()) == count &&
           sum == config_.model.layers),
      key::parallel.stage_layers,
      [&] {
        return format(" has {} numbers with the sum {}, but ", p.stage_layers.size(),
                      sum);
      },
      key::parallel.pipeline, " x ", key::parallel.virtual_stages,
      [&] { return format(" makes {} stages for ", count); }, key::model.layers,
      ": write a number for each stage, or parallel.stage_layers = [] to cut "
      "by work");
  rule({key::parallel.stage_layers}, schedule::fills_stages(p.stage_layers),
       key::parallel.stage_layers,
       " has a stage without anything to do: only the first, which has the embedding, "
       "and the last, which has the head, can be without a block");
}

}  // namespace trireme::config
