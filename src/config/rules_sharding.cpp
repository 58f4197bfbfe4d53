// Rules about sharding and recomputation.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "config/rules.hpp"
#include "optim/parameter_groups.hpp"

namespace trireme::config {

void MemoryRules::sharding_rules() {
  const auto& p = config_.parallel;
  const int replicas = p.mesh.data * p.mesh.context;
  const ShardingStrategy strategy = deck_[key::parallel.sharding_strategy];
  rule({key::parallel.sharding_strategy, key::parallel.shard_group},
       strategy.hybrid || deck_.is_default(key::parallel.shard_group),
       key::parallel.shard_group, " has no meaning with ",
       key::parallel.sharding_strategy,
       ", which shares out over all data and context ranks: remove it, or write "
       "parallel.sharding_strategy = \"HYBRID_SHARD\"");
  ranks_rule(
      {key::parallel.sharding_strategy, key::parallel.shard_group, key::parallel.context,
       key::parallel.tensor, key::parallel.pipeline},
      [&] { return replicas == 0 || replicas % p.folding.shard == 0; },
      Resolved{key::parallel.shard_group, p.folding.shard},
      [&] { return format(" must divide the {} data x context ranks", replicas); },
      [&] {
        return advise(
            {{key::parallel.shard_group, divisors_up_to(replicas, p.folding.shard)}});
      });
  unit_rules(strategy.gathers());
}

// How weights are cut into units, and gathered.
void MemoryRules::unit_rules(bool gathers) {
  const auto& p = config_.parallel;
  const std::string_view remedy =
      ", where weights are not gathered: remove it, or write FULL_SHARD or HYBRID_SHARD";
  meaningless(key::parallel.prefetch, key::parallel.sharding_strategy, !gathers, remedy);
  meaningless(key::parallel.gathered_units, key::parallel.sharding_strategy, !gathers,
              remedy);
  meaningless(key::parallel.offload, key::parallel.sharding_strategy,
              !gathers && optim::moves_weights(p.offload), remedy);
  rule({key::parallel.gathered_units, key::model.tie_embeddings},
       p.gathered_units == 0 || p.gathered_units >= 2 || !config_.model.tie_embeddings,
       key::parallel.gathered_units, " is too few with ", key::model.tie_embeddings,
       ", whose table is a unit of its own: write parallel.gathered_units = 2 "
       "or more, or 0 for as many as it takes");
  wrap_rules();
  offload_rules();
  offload_activations_rules();
}

void MemoryRules::offload_rules() {
  const auto& p = config_.parallel;
  const bool on_disk = optim::is_on_disk(p.offload);
  meaningless(key::parallel.offload_fraction, key::parallel.offload,
              !on_disk && p.offload != optim::Offload::optimizer,
              ", for it is a share of the optimizer's state: remove it, or write "
              "parallel.offload = \"optimizer\"");
  meaningless(key::parallel.offload_directory, key::parallel.offload, !on_disk,
              ", which writes no file: remove it, or write parallel.offload = \"disk\"");
  rule({key::parallel.offload, key::parallel.offload_directory},
       !on_disk || p.offload_directory.starts_with('/') ||
           p.offload_directory.starts_with('$'),
       key::parallel.offload, " with ", key::parallel.offload_directory,
       ": it needs a folder on a disk of each node's own, and that has to begin with '/' "
       "or, for a variable of each node, with '$': write parallel.offload_directory = "
       "\"/tmp\"");
}

// Weight gradients that are made later read activations when others have their place.
void MemoryRules::offload_activations_rules() {
  const auto& p = config_.parallel;
  meaningless(key::parallel.offload_activations_fraction,
              key::parallel.offload_activations, !p.offload_activations,
              ", where no activations are offloaded: remove it, or write "
              "parallel.offload_activations = true");
  rule({key::parallel.offload_activations, key::parallel.schedule},
       !p.offload_activations || !defers_weights(p.schedule),
       key::parallel.offload_activations, " with ", key::parallel.schedule,
       ", which puts off weight gradients that read activations when they are away "
       "again",
       [&] {
         return advise(
             {{key::parallel.schedule, {"\"1f1b\"", "\"gpipe\"", "\"interleaved\""}},
              {key::parallel.offload_activations, {"false"}}});
       });
}

void MemoryRules::wrap_rules() {
  const auto& p = config_.parallel;
  rule({key::parallel.wrap, key::parallel.wrap_parameters},
       (deck_[key::parallel.wrap] == Wrap::size) ==
           (deck_[key::parallel.wrap_parameters] > 0),
       key::parallel.wrap, " with ", key::parallel.wrap_parameters,
       ": wrap = \"size\" needs a size, and no other takes one", [&] {
         return advise({{key::parallel.wrap, {"\"size\"", "\"block\""}},
                        {key::parallel.wrap_parameters, {"0", "1000000"}}});
       });
  const std::vector<std::string> names = deck_[key::parallel.wrap_names];
  rule({key::parallel.wrap, key::parallel.wrap_names},
       (deck_[key::parallel.wrap] == Wrap::names) == !names.empty(), key::parallel.wrap,
       " with ", key::parallel.wrap_names,
       ": wrap = \"names\" needs names, and no other takes them", [&] {
         return advise({{key::parallel.wrap, {"\"names\"", "\"block\""}},
                        {key::parallel.wrap_names, {"[]", "[\"block *\"]"}}});
       });
  const auto names_a_module = [&](const std::string& pattern) {
    for (std::int64_t layer = 0; layer < config_.model.layers; ++layer)
      if (optim::matches(pattern, format("block {}", layer))) return true;
    return optim::matches(pattern, "embedding") || optim::matches(pattern, "head");
  };
  rule(
      {key::parallel.wrap_names, key::model.layers},
      std::ranges::all_of(names, names_a_module), key::parallel.wrap_names, " with ",
      key::model.layers,
      " names a module that there is not: there are \"embedding\", \"block 0\" up to the "
      "number of layers less one, and \"head\"");
  rule({key::parallel.wrap, key::parallel.sharding_strategy},
       p.sharding != optim::Sharding::none ||
           (p.wrap_parameters == 0 && p.wrap_names.empty()),
       key::parallel.wrap, " has no meaning with ", key::parallel.sharding_strategy,
       ": remove it");
}

void MemoryRules::recompute_rules() {
  const RecomputePolicy policy = deck_[key::recompute.policy];
  const std::vector<std::string> pieces = deck_[key::recompute.pieces];
  rule({key::recompute.policy, key::recompute.pieces},
       (policy == RecomputePolicy::selective) == !pieces.empty(), key::recompute.policy,
       " with ", key::recompute.pieces,
       pieces.empty() ? ": selective needs pieces: write some, such as "
                        "recompute.pieces = [\"norm\", \"activation\"]"
                      : ": only selective takes pieces: write recompute.policy = "
                        "\"selective\", or recompute.pieces = []");
  rule(
      {key::recompute.pieces},
      [&] {
        return std::all_of(pieces.begin(), pieces.end(), [](const std::string& name) {
          return std::any_of(
              recompute_pieces.begin(), recompute_pieces.end(),
              [&](const RecomputePiece& piece) { return piece.name == name; });
        });
      },
      key::recompute.pieces,
      " names a piece that there is not: write some of norm, attention, "
      "activation and up");
  rule(
      {key::recompute.policy, key::recompute.layers, key::model.layers},
      config_.recompute.layers == 0 || (policy != RecomputePolicy::none &&
                                        config_.recompute.layers <= config_.model.layers),
      key::recompute.layers, " with ", key::recompute.policy, " and ", key::model.layers,
      ": it counts blocks that recompute; write recompute.layers = 0, or a "
      "policy and at most all blocks");
  partition_rules();
}

void MemoryRules::partition_rules() {
  const RecomputePolicy policy = deck_[key::recompute.policy];
  const auto& p = config_.parallel;
  rule({key::recompute.partition, key::recompute.policy, key::parallel.tensor,
        key::parallel.sequence},
       !config_.recompute.what.partition ||
           (policy == RecomputePolicy::full && p.mesh.tensor > 1 && !p.sequence),
       key::recompute.partition, " needs ",
       "recompute.policy = \"full\", parallel.tensor > 1 and "
       "parallel.sequence = false (which splits those inputs already), but ",
       key::recompute.policy, ", ", key::parallel.tensor, ", ", key::parallel.sequence,
       ": remove it");
  rule(
      {key::recompute.partition, key::parallel.tensor, key::batch.micro,
       key::model.sequence, key::parallel.context},
      [&] {
        return !config_.recompute.what.partition ||
               config_.batch.micro * (config_.model.sequence / p.mesh.context) %
                       p.mesh.tensor ==
                   0;
      },
      key::recompute.partition, ": ", key::batch.micro, " x ", key::model.sequence, " / ",
      key::parallel.context, " must be divisible by ", key::parallel.tensor,
      ": write recompute.partition = false");
}

}  // namespace trireme::config
