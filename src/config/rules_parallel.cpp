// Rules about the mesh, sharding, the pipeline and recomputation.
// SPDX-License-Identifier: Apache-2.0
#include "config/rules.hpp"

namespace trireme::config {

void Rules::tensor_rules() {
  const auto& m = config_.model;
  const std::int64_t tensor = config_.parallel.mesh.tensor,
                     context = config_.parallel.mesh.context;
  rule(
      {"model.heads", "parallel.tensor"}, [&] { return m.heads % tensor == 0; },
      [&] {
        return show("model.heads") + " must be divisible by " + show("parallel.tensor") +
               advise({{"model.heads", multiples_from(m.heads, tensor)},
                       {"parallel.tensor", divisors_up_to(m.heads, tensor)}});
      });
  rule(
      {"parallel.tensor", "model.feed_forward", "model.hidden", "model.architecture"},
      [&] { return m.feed_forward >= tensor; },
      [&] {
        return show("model.feed_forward", m.feed_forward) + " is less than " +
               show("parallel.tensor") +
               advise({{"model.feed_forward", multiples_from(tensor, tensor)},
                       {"parallel.tensor", divisors_up_to(m.heads, m.feed_forward)}});
      });
  rule(
      {"parallel.tensor", "model.vocabulary", "data.source"},
      [&] { return m.vocabulary == 0 || m.vocabulary >= tensor; },
      [&] {
        return show("model.vocabulary", m.vocabulary) + " is less than " +
               show("parallel.tensor") +
               advise({{"parallel.tensor", divisors_up_to(m.heads, m.vocabulary)}});
      });
  tensor_chunk_rules();
  rule(
      {"batch.micro", "model.sequence", "parallel.tensor", "parallel.sequence",
       "parallel.context"},
      [&] {
        return !config_.parallel.sequence || m.sequence % context != 0 ||
               config_.batch.micro * (m.sequence / context) % tensor == 0;
      },
      [&] {
        return show("batch.micro") + " x " + show("model.sequence") +
               (context > 1 ? " / " + show("parallel.context") : std::string()) +
               " must be divisible by " + show("parallel.tensor") + " with " +
               show("parallel.sequence") +
               advise({{"model.sequence", multiples_from(m.sequence, tensor * context)},
                       {"parallel.sequence", {"false"}}});
      });
}

void Rules::tensor_chunk_rules() {
  rule(
      {"parallel.tensor", "parallel.tensor_chunks"},
      [&] {
        return config_.parallel.mesh.tensor > 1 || config_.parallel.tensor_chunks == 1;
      },
      [&] {
        return show("parallel.tensor_chunks") + " has no meaning with " +
               show("parallel.tensor") + ": write parallel.tensor_chunks = 1";
      });
  rule(
      {"parallel.tensor_chunks", "precision.compute"},
      [&] {
        return !config_.precision.recipe.fp8() || config_.parallel.tensor_chunks == 1;
      },
      [&] {
        return show("parallel.tensor_chunks") + " cuts products whose operands " +
               show("precision.compute") +
               " scales as a whole: write parallel.tensor_chunks = 1";
      });
}

void Rules::context_rules() {
  const auto& m = config_.model;
  const std::int64_t context = config_.parallel.mesh.context,
                     tensor = config_.parallel.mesh.tensor;
  const bool ulysses = config_.parallel.ulysses;
  const bool zigzag = config_.parallel.order == parallel::ContextOrder::zigzag;
  const std::int64_t chunks = zigzag ? 2 * context : context;
  rule(
      {"model.sequence", "parallel.context", "parallel.context_order",
       "parallel.context_method"},
      [&] { return context == 1 || m.sequence % chunks == 0; },
      [&] {
        return show("model.sequence") + " must be divisible by " +
               (zigzag ? "2 x " : "") + show("parallel.context") +
               (zigzag ? " with zigzag order" : "") +
               advise({{"model.sequence", multiples_from(m.sequence, chunks)},
                       {"parallel.context", divisors_up_to(m.sequence, context)}});
      });
  rule(
      {"parallel.context_method", "parallel.context_order"},
      [&] { return !(ulysses && deck_.text("parallel.context_order") == "zigzag"); },
      [&] {
        return show("parallel.context_order") + " has no meaning with " +
               show("parallel.context_method") +
               ", where a rank sees whole sequences: write parallel.context_order = "
               "\"auto\"";
      });
  rule(
      {"model.heads", "parallel.tensor", "parallel.context", "parallel.context_method"},
      [&] {
        return !ulysses || m.heads % tensor != 0 || m.heads / tensor % context == 0;
      },
      [&] {
        return show("model.heads") + " / " + show("parallel.tensor") +
               " must be divisible by " + show("parallel.context") + " with " +
               show("parallel.context_method") +
               advise({{"parallel.context", divisors_up_to(m.heads / tensor, context)},
                       {"parallel.context_method", {"\"ring\""}}});
      });
}

void Rules::expert_rules() {
  const auto& m = config_.model;
  const auto& moe = m.moe;
  const bool mixture = m.has_experts();
  rule(
      {"model.architecture", "model.moe.experts"},
      [&] { return mixture == (moe.experts > 0); },
      [&] {
        return show("model.architecture") + " with " + show("model.moe.experts") +
               (mixture ? ": write how many experts a layer has"
                        : ": only mixtral and deepseek_moe have experts; write "
                          "model.moe.experts = 0");
      });
  rule(
      {"model.moe.experts", "model.moe.top_k"},
      [&] { return !mixture || moe.experts == 0 || moe.top_k <= moe.experts; },
      [&] {
        return show("model.moe.top_k") + " is more than " + show("model.moe.experts") +
               advise({{"model.moe.top_k", {std::to_string(moe.experts)}},
                       {"model.moe.experts", {std::to_string(moe.top_k)}}});
      });
  expert_key_rules();
  rule(
      {"model.moe.bias_update_rate", "model.moe.choice_bias"},
      [&] { return moe.bias_update_rate == 0 || moe.choice_bias; },
      [&] {
        return show("model.moe.bias_update_rate") + " moves a bias that " +
               show("model.moe.choice_bias") +
               " leaves out: write model.moe.choice_bias = true, or "
               "model.moe.bias_update_rate = 0";
      });
  rule(
      {"model.moe.dense_layers", "model.layers"},
      [&] { return moe.dense_layers <= m.layers; },
      [&] {
        return show("model.moe.dense_layers") + " is more than " + show("model.layers") +
               format(": write model.moe.dense_layers = {}", m.layers);
      });
  rule(
      {"model.moe.capacity_factor", "parallel.context"},
      [&] { return moe.capacity_factor == 0 || config_.parallel.mesh.context == 1; },
      [&] {
        return show("model.moe.capacity_factor") + " with " + show("parallel.context") +
               ": which tokens of a sequence come first is not known to a rank that "
               "holds a part of it; write model.moe.capacity_factor = 0";
      });
  expert_mesh_rules();
}

// Keys that an architecture does not have must keep their defaults.
void Rules::expert_key_rules() {
  const model::MoeSettings& moe = config_.model.moe;
  const bool mixture = config_.model.has_experts();
  const bool deepseek = config_.model.architecture == model::Architecture::deepseek_moe;
  const auto only = [&](std::string_view key, bool has, bool is_default) {
    rule(
        {key, "model.architecture"}, [&] { return has || is_default; },
        [&] {
          return show(key) + " has no meaning with " + show("model.architecture") +
                 ": remove it";
        });
  };
  const model::MoeSettings usual;
  only("model.moe.top_k", mixture, moe.top_k == 2);
  only("model.moe.shared_experts", deepseek, moe.shared_experts == 0);
  only("model.moe.expert_feed_forward", mixture, moe.expert_feed_forward == 0);
  only("model.moe.dense_layers", deepseek, moe.dense_layers == 0);
  only("model.moe.router", deepseek, moe.router == usual.router);
  only("model.moe.normalise", deepseek, moe.normalise == usual.normalise);
  only("model.moe.scaling", deepseek, moe.scaling == usual.scaling);
  only("model.moe.capacity_factor", mixture, moe.capacity_factor == 0);
  only("model.moe.aux_loss", mixture, moe.aux_loss == 0);
  only("model.moe.z_loss", mixture, moe.z_loss == 0);
  only("model.moe.choice_bias", deepseek, !moe.choice_bias);
  only("model.moe.bias_update_rate", deepseek, moe.bias_update_rate == 0);
}

void Rules::expert_mesh_rules() {
  const model::MoeSettings& moe = config_.model.moe;
  const auto& p = config_.parallel;
  const bool mixture = config_.model.has_experts();
  const int replicas = p.mesh.data * p.mesh.context, expert = p.folding.expert;
  rule(
      {"parallel.expert", "model.architecture"}, [&] { return expert == 1 || mixture; },
      [&] {
        return show("parallel.expert") + " has no meaning with " +
               show("model.architecture") +
               ", which has no experts: write parallel.expert = 1";
      });
  rule(
      {"parallel.expert", "model.moe.experts"},
      [&] { return !mixture || moe.experts % expert == 0; },
      [&] {
        return show("model.moe.experts") + " must be divisible by " +
               show("parallel.expert") +
               advise({{"parallel.expert",
                        divisors_up_to(std::max<std::int64_t>(moe.experts, 1), expert)},
                       {"model.moe.experts", multiples_from(moe.experts, expert)}});
      });
  rule(
      {"parallel.expert", "parallel.tensor", "parallel.context", "parallel.pipeline"},
      [&] { return replicas == 0 || replicas % expert == 0; },
      [&] {
        return show("parallel.expert") +
               format(" must divide the {} data x context ranks", replicas) +
               advise({{"parallel.expert", divisors_up_to(replicas, expert)}});
      },
      true);
  rule(
      {"parallel.expert", "parallel.sharding_strategy", "parallel.shard_group",
       "parallel.tensor", "parallel.context", "parallel.pipeline"},
      [&] {
        return replicas == 0 || p.folding.shard % expert == 0 ||
               expert % p.folding.shard == 0;
      },
      [&] {
        return show("parallel.expert") + " and " +
               show("parallel.shard_group", p.folding.shard) +
               ": one must divide the other, so that expert groups and shard groups "
               "fit into each other" +
               advise({{"parallel.expert", divisors_up_to(replicas, replicas)},
                       {"parallel.shard_group", divisors_up_to(replicas, replicas)}});
      });
}

void Rules::pipeline_rules() {
  const auto& p = config_.parallel;
  const schedule::PipelineShape shape{p.schedule, p.mesh.pipeline, p.virtual_stages, 1};
  rule(
      {"parallel.schedule", "parallel.virtual_stages"},
      [&] { return why_illegal(shape).empty(); },
      [&] {
        return show("parallel.schedule") + " with " + show("parallel.virtual_stages") +
               ": " + why_illegal(shape) +
               advise({{"parallel.virtual_stages", {"1", "2"}},
                       {"parallel.schedule", {"\"1f1b\"", "\"interleaved\""}}});
      });
  const std::int64_t count = std::int64_t{1} * p.mesh.pipeline * p.virtual_stages;
  rule(
      {"model.layers", "parallel.pipeline", "parallel.virtual_stages"},
      [&] { return config_.model.layers >= count; },
      [&] {
        return show("model.layers") + " is less than " + show("parallel.pipeline") +
               " x " + show("parallel.virtual_stages") + format(" = {} stages", count) +
               advise({{"model.layers", {std::to_string(count)}},
                       {"parallel.virtual_stages", numbers(p.virtual_stages - 1, 1)},
                       {"parallel.pipeline",
                        numbers(config_.model.layers / p.virtual_stages, 1)}});
      });
  std::int64_t sum = 0;
  for (const std::int64_t layers : p.stage_layers) sum += layers;
  rule(
      {"parallel.stage_layers", "model.layers", "parallel.pipeline",
       "parallel.virtual_stages"},
      [&] {
        return p.stage_layers.empty() ||
               (static_cast<std::int64_t>(p.stage_layers.size()) == count &&
                sum == config_.model.layers);
      },
      [&] {
        return show("parallel.stage_layers") +
               format(" has {} numbers with the sum {}, but ", p.stage_layers.size(),
                      sum) +
               show("parallel.pipeline") + " x " + show("parallel.virtual_stages") +
               format(" makes {} stages for ", count) + show("model.layers") +
               ": write a number for each stage, or parallel.stage_layers = [] to cut "
               "by work";
      });
}

void Rules::sharding_rules() {
  const auto& p = config_.parallel;
  const int replicas = p.mesh.data * p.mesh.context;
  const std::string& strategy = deck_.text("parallel.sharding_strategy");
  const bool hybrid = strategy == "HYBRID_SHARD";
  const bool gathers = hybrid || strategy == "FULL_SHARD";
  rule(
      {"parallel.sharding_strategy", "parallel.shard_group"},
      [&] { return hybrid || deck_.integer("parallel.shard_group") == 0; },
      [&] {
        return show("parallel.shard_group") + " has no meaning with " +
               show("parallel.sharding_strategy") +
               ", which shares out over all data and context ranks: remove it, or write "
               "parallel.sharding_strategy = \"HYBRID_SHARD\"";
      });
  rule(
      {"parallel.sharding_strategy", "parallel.shard_group", "parallel.context",
       "parallel.tensor", "parallel.pipeline"},
      [&] { return replicas == 0 || replicas % p.folding.shard == 0; },
      [&] {
        return show("parallel.shard_group", p.folding.shard) +
               format(" must divide the {} data x context ranks", replicas) +
               advise(
                   {{"parallel.shard_group", divisors_up_to(replicas, p.folding.shard)}});
      },
      true);
  unit_rules(gathers);
}

// How weights are cut into units, and gathered.
void Rules::unit_rules(bool gathers) {
  const auto& p = config_.parallel;
  const auto gathering_only = [&](std::string_view key, bool is_default) {
    rule(
        {key, "parallel.sharding_strategy"}, [&] { return gathers || is_default; },
        [&] {
          return show(key) + " has no meaning with " +
                 show("parallel.sharding_strategy") +
                 ", where weights are not gathered: remove it, or write FULL_SHARD or "
                 "HYBRID_SHARD";
        });
  };
  gathering_only("parallel.prefetch", p.prefetch == 1);
  gathering_only("parallel.gathered_units", p.gathered_units == 0);
  gathering_only("parallel.offload", p.offload != optim::Offload::weights);
  rule(
      {"parallel.gathered_units", "model.tie_embeddings"},
      [&] {
        return p.gathered_units == 0 || p.gathered_units >= 2 ||
               !config_.model.tie_embeddings;
      },
      [&] {
        return show("parallel.gathered_units") + " is too few with " +
               show("model.tie_embeddings") +
               ", whose table is a unit of its own: write parallel.gathered_units = 2 "
               "or more, or 0 for as many as it takes";
      });
  wrap_rules();
}

void Rules::wrap_rules() {
  const auto& p = config_.parallel;
  rule(
      {"parallel.wrap", "parallel.wrap_parameters"},
      [&] {
        return (deck_.text("parallel.wrap") == "size") ==
               (deck_.integer("parallel.wrap_parameters") > 0);
      },
      [&] {
        return show("parallel.wrap") + " with " + show("parallel.wrap_parameters") +
               ": wrap = \"size\" needs a size, and no other takes one" +
               advise({{"parallel.wrap", {"\"size\"", "\"block\""}},
                       {"parallel.wrap_parameters", {"0", "1000000"}}});
      });
  rule(
      {"parallel.wrap", "parallel.sharding_strategy"},
      [&] { return p.sharding != optim::Sharding::none || p.wrap_parameters == 0; },
      [&] {
        return show("parallel.wrap") + " has no meaning with " +
               show("parallel.sharding_strategy") + ": remove it";
      });
}

void Rules::recompute_rules() {
  const std::string& policy = deck_.text("recompute.policy");
  const auto pieces = deck_.texts("recompute.pieces");
  rule(
      {"recompute.policy", "recompute.pieces"},
      [&] { return (policy == "selective") == !pieces.empty(); },
      [&] {
        return show("recompute.policy") + " with " + show("recompute.pieces") +
               ": selective needs pieces, such as [\"norm\", \"activation\"], and no "
               "other policy takes them";
      });
  rule(
      {"recompute.pieces"},
      [&] {
        return std::all_of(pieces.begin(), pieces.end(), [](const std::string& piece) {
          return among("norm|attention|activation|up", piece);
        });
      },
      [&] {
        return show("recompute.pieces") +
               " names a piece that there is not: write some of norm, attention, "
               "activation and up";
      });
  rule(
      {"recompute.policy", "recompute.layers", "model.layers"},
      [&] {
        return config_.recompute.layers == 0 ||
               (policy != "none" && config_.recompute.layers <= config_.model.layers);
      },
      [&] {
        return show("recompute.layers") + " with " + show("recompute.policy") + " and " +
               show("model.layers") +
               ": it counts blocks that recompute; write recompute.layers = 0, or a "
               "policy and at most all blocks";
      });
  partition_rules();
}

void Rules::partition_rules() {
  const std::string& policy = deck_.text("recompute.policy");
  const auto& p = config_.parallel;
  rule(
      {"recompute.partition", "recompute.policy", "parallel.tensor", "parallel.sequence"},
      [&] {
        return !config_.recompute.what.partition ||
               (policy == "full" && p.mesh.tensor > 1 && !p.sequence);
      },
      [&] {
        return show("recompute.partition") + " needs " +
               "recompute.policy = \"full\", parallel.tensor > 1 and "
               "parallel.sequence = false (which splits those inputs already), but " +
               show("recompute.policy") + ", " + show("parallel.tensor") + ", " +
               show("parallel.sequence") + ": remove it";
      });
  rule(
      {"recompute.partition", "parallel.tensor", "batch.micro", "model.sequence",
       "parallel.context"},
      [&] {
        return !config_.recompute.what.partition ||
               config_.batch.micro * (config_.model.sequence / p.mesh.context) %
                       p.mesh.tensor ==
                   0;
      },
      [&] {
        return show("recompute.partition") + ": " + show("batch.micro") + " x " +
               show("model.sequence") + " / " + show("parallel.context") +
               " must be divisible by " + show("parallel.tensor") +
               ": write recompute.partition = false";
      });
}

}  // namespace trireme::config
