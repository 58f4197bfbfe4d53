// Rules about optimizer.outer: copies of the model that take steps by themselves.
// SPDX-License-Identifier: Apache-2.0
// The page docs/decisions/outer-steps.md says why.
#include "config/rules.hpp"

namespace trireme::config {

void OuterRules::outer_rules() {
  const optim::OuterConfig& outer = config_.optimizer.outer;
  for (const io::DeckKey* key :
       {static_cast<const io::DeckKey*>(&key::outer.learning_rate),
        static_cast<const io::DeckKey*>(&key::outer.momentum)})
    meaningless(*key, key::outer.every, !outer.on(),
                ", where gradients are summed in every step: remove it, or write "
                "optimizer.outer.every = 50");
  if (!outer.on()) return;
  outer_mesh_rules();
  outer_round_rules();
  rule({key::outer.every, key::debug.dump_gradients},
       config_.debug.dump_gradients.empty(), key::outer.every, " with ",
       key::debug.dump_gradients, ": the copies of the model have gradients of their own",
       [&] {
         return advise({{key::debug.dump_gradients, {"[]"}}, {key::outer.every, {"0"}}});
       });
  rule(
      {key::outer.every, key::parallel.offload},
      config_.parallel.offload == optim::Offload::none, key::outer.every, " with ",
      key::parallel.offload, ": what is averaged has to lie on the device", [&] {
        return advise({{key::parallel.offload, {"\"none\""}}, {key::outer.every, {"0"}}});
      });
  needs_plain_state(key::outer.every, "0");
}

// A copy is what has all weights and reads whole sequences.
void OuterRules::outer_mesh_rules() {
  const auto& p = config_.parallel;
  const ShardingStrategy strategy = deck_[key::parallel.sharding_strategy];
  const Advice off(key::outer.every, {"0"});
  rule({key::outer.every, key::parallel.sharding_strategy},
       p.sharding == optim::Sharding::none || strategy.hybrid, key::outer.every, " with ",
       key::parallel.sharding_strategy,
       ", with which there is one copy of the model, shared out over all ranks", [&] {
         return advise(
             {{key::parallel.sharding_strategy, {"\"HYBRID_SHARD\"", "\"NO_SHARD\""}},
              off});
       });
  rule({key::outer.every, key::parallel.sharding_strategy, key::parallel.context,
        key::parallel.shard_group},
       strategy.hybrid ? p.folding.shard % p.mesh.context == 0 : p.mesh.context == 1,
       key::outer.every, " with ", key::parallel.context, " and ",
       key::parallel.sharding_strategy,
       ": the ranks that share a sequence belong to one copy of the model; share it out "
       "over a multiple of them",
       [&] {
         return advise({{key::parallel.context, {"1"}}, off});
       });
  rule({key::outer.every, key::parallel.expert}, p.folding.expert == 1, key::outer.every,
       " with ", key::parallel.expert,
       ", where the experts of several copies of the model are one", [&] {
         return advise({{key::parallel.expert, {"1"}}, off});
       });
  rule(
      {key::outer.every, key::batch.global, key::batch.micro},
      [&] {
        return p.mesh.data == 0 ||  // the mesh does not fit
               config_.batch.global < config_.batch.micro * p.mesh.data ||
               !config_.has_stand_ins();
      },
      key::outer.every, " with ", key::batch.global,
      ", which is not a multiple of the data ranks' microbatches: some copies would "
      "learn from fewer sequences than others",
      [&] {
        const std::int64_t of = config_.batch.micro * p.mesh.data;
        return advise({{key::batch.global,
                        {std::to_string(next_multiple(config_.batch.global, of))}},
                       off});
      });
}

// What looks at the model as one comes at the end of a round.
void OuterRules::outer_round_rules() {
  const std::int64_t every = config_.optimizer.outer.every;
  const auto at_ends = [&](const io::DeckKey& key, std::int64_t steps) {
    rule({key::outer.every, key}, steps % every == 0, key, " is no multiple of ",
         key::outer.every, ", after which the copies of the model are one", [&] {
           return advise({{key, {std::to_string(next_multiple(steps, every))}},
                          {key::outer.every, divisors_up_to(steps, every)}});
         });
  };
  at_ends(key::run.steps, config_.run.steps);
  at_ends(key::checkpoint.every, config_.checkpoint.every);
  at_ends(key::checkpoint.partner, config_.checkpoint.partner);
  at_ends(key::metrics.validate_every, config_.metrics.validate_every);
  at_ends(key::metrics.sample_every, config_.metrics.sample_every);
  at_ends(key::health.check_replicas_every, config_.health.check_replicas_every);
}

}  // namespace trireme::config
