// Rules about sums that do not depend on the data ranks, broken one by one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

const std::vector<Case> cases = {
    {{"comm.reproducible=true", "parallel.sharding_strategy=FULL_SHARD"},
     2,
     {"comm.reproducible = true with parallel.sharding_strategy = \"FULL_SHARD\"",
      "write parallel.sharding_strategy = \"NO_SHARD\" or comm.reproducible = false"}},
    {{"comm.reproducible=true", "parallel.sharding_strategy=NO_SHARD",
      "precision.compute=fp16"},
     2,
     {"comm.reproducible = true with precision.compute = \"fp16\"",
      "write precision.compute = \"bf16\""}},
    {{"comm.reproducible=true", "parallel.sharding_strategy=NO_SHARD",
      "precision.compute=fp8", "precision.recipe=ms_amp_o1", "model.feed_forward=64"},
     2,
     {"comm.reproducible = true needs gradients", "ms_amp_o1"}},
    {{"comm.reproducible=true", "parallel.sharding_strategy=NO_SHARD",
      "parallel.expert=2", "model.architecture=mixtral", "model.moe.experts=4"},
     2,
     {"comm.reproducible = true with parallel.expert = 2", "parallel.expert = 1"}},
    {{"comm.reproducible=true", "parallel.sharding_strategy=NO_SHARD",
      "optimizer.outer.every=5"},
     2,
     {"comm.reproducible = true with optimizer.outer.every = 5"}},
};

TEST(ReproducibleRules, EachRuleBroken) {
  for (const Case& wrong : cases) expect_one_problem(wrong);
}

TEST(ReproducibleRules, LegalDecks) {
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"parallel.tensor=2"},
           {"parallel.context=2"},
           {"parallel.pipeline=2", "precision.compute=bf16"}}) {
    SCOPED_TRACE(joined(overrides));
    std::vector<std::string> all = overrides;
    all.insert(all.end(),
               {"comm.reproducible=true", "parallel.sharding_strategy=NO_SHARD"});
    EXPECT_TRUE(config::make_run_config(parse_sample(all), 4).parallel.reproducible);
  }
}

}  // namespace
}  // namespace trireme::test
