// Rules about run.cuda_graphs, broken one by one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

const std::vector<Case> cases = {
    {{"run.device=cuda", "run.cuda_graphs=true", "parallel.tensor=2"},
     2,
     {"run.cuda_graphs = true with parallel.tensor = 2, whose ranks send messages inside "
      "a microbatch, which only NCCL can record, but comm.backend",
      "write comm.backend = \"nccl\""}},
    {{"run.device=cuda", "run.cuda_graphs=true", "batch.micro=2", "batch.global=4"},
     2,
     {"run.cuda_graphs = true with batch.global = 4 and batch.micro = 2, which is one "
      "microbatch a step and data rank",
      "write comm.backend = \"nccl\"", "batch.global = 8"}},
};

// What a graph holds: sums over replicas by NCCL, masks whose numbers lie in memory,
// activations that go to the host and come back.
const std::vector<std::pair<std::vector<std::string>, int>> legal = {
    {{"comm.backend=nccl", "batch.micro=2", "batch.global=4"}, 2},
    {{"comm.backend=nccl", "batch.micro=1", "batch.global=4",
      "parallel.sharding_strategy=HYBRID_SHARD", "parallel.shard_group=2"},
     4},
    {{"model.dropout.residual=0.1", "model.dropout.attention=0.1"}, 1},
    {{"parallel.offload_activations=true"}, 1},
};

TEST(GraphRules, EachRuleBroken) {
  for (const auto& wrong : cases) expect_one_problem(wrong);
}

TEST(GraphRules, WhatCanBeRecorded) {
  for (const auto& [words, ranks] : legal) {
    std::vector<std::string> all = {"run.device=cuda", "run.cuda_graphs=true"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_NO_THROW(config::make_run_config(parse_sample(all), ranks)) << joined(all);
  }
}

}  // namespace
}  // namespace trireme::test
