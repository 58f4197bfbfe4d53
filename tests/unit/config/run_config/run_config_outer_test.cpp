// Rules about copies of the model that take steps by themselves, broken one by one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

const std::vector<Case> cases = {
    {{"optimizer.outer.momentum=0.9"},
     1,
     {"optimizer.outer.momentum = 0.9 has no meaning with optimizer.outer.every = 0"}},
    {{"optimizer.outer.every=5", "parallel.sharding_strategy=FULL_SHARD"},
     2,
     {"optimizer.outer.every = 5 with parallel.sharding_strategy = \"FULL_SHARD\"",
      "write parallel.sharding_strategy = \"HYBRID_SHARD\""}},
    {{"optimizer.outer.every=5", "parallel.context=2"},
     4,
     {"optimizer.outer.every = 5 with parallel.context = 2",
      "write parallel.context = 1"}},
    {{"optimizer.outer.every=5", "parallel.expert=2", "model.architecture=mixtral",
      "model.moe.experts=4"},
     2,
     {"optimizer.outer.every = 5 with parallel.expert = 2", "parallel.expert = 1"}},
    {{"optimizer.outer.every=5", "parallel.tensor=2"},
     3,
     {"must divide the number of ranks"},
     Status::resources},
    {{"optimizer.outer.every=5", "batch.global=6"},
     4,
     {"optimizer.outer.every = 5 with batch.global = 6", "write batch.global = 8"}},
    {{"optimizer.outer.every=5", "parallel.offload=optimizer"},
     2,
     {"optimizer.outer.every = 5 with parallel.offload", "parallel.offload = \"none\""}},
    {{"optimizer.outer.every=5", "precision.compute=fp8", "precision.recipe=ms_amp_o3",
      "model.feed_forward=64"},
     2,
     {"optimizer.outer.every = 5 needs master weights, gradient sums and moments",
      "ms_amp_o3", "write precision.recipe = \"auto\" or optimizer.outer.every = 0"}},
    {{"optimizer.outer.every=5", "precision.compute=bf16", "precision.master=bf16"},
     2,
     {"write precision.master = \"auto\" or optimizer.outer.every = 0"}},
    {{"optimizer.outer.every=4"},
     2,
     {"run.steps = 10 is no multiple of optimizer.outer.every = 4",
      "write run.steps = 12"}},
    {{"optimizer.outer.every=5", "checkpoint.every=3"},
     2,
     {"checkpoint.every = 3 is no multiple of optimizer.outer.every = 5",
      "write checkpoint.every = 5"}},
    {{"optimizer.outer.every=5", "metrics.validate_every=2",
      "data.validation_paths=[\"x\"]"},
     2,
     {"metrics.validate_every = 2 is no multiple of optimizer.outer.every = 5"}},
    {{"optimizer.outer.every=5", "debug.dump_gradients=[1]"},
     2,
     {"optimizer.outer.every = 5 with debug.dump_gradients = [1]"}},
};

TEST(OuterRules, EachRuleBroken) {
  for (const Case& wrong : cases) expect_one_problem(wrong);
}

TEST(OuterRules, LegalDecks) {
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"optimizer.outer.every=5"},
           {"optimizer.outer.every=5", "parallel.sharding_strategy=HYBRID_SHARD",
            "parallel.shard_group=2", "parallel.context=2"},
           {"optimizer.outer.every=1", "optimizer.outer.learning_rate=0.7",
            "optimizer.outer.momentum=0.9"}}) {
    SCOPED_TRACE(joined(overrides));
    const auto config = config::make_run_config(parse_sample(overrides), 4);
    EXPECT_TRUE(config.optimizer.outer.on());
  }
}

}  // namespace
}  // namespace trireme::test
