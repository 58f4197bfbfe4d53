// Rules about run.cuda_graphs, broken one by one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

const std::vector<Case> cases = {
    {{"run.device=cuda", "run.cuda_graphs=true", "model.dropout.residual=0.1"},
     1,
     {"run.cuda_graphs = true with model.dropout.residual = 0.1", "masks"}},
    {{"run.device=cuda", "run.cuda_graphs=true", "parallel.offload_activations=true"},
     1,
     {"run.cuda_graphs = true with parallel.offload_activations = true", "copies"}},
    {{"run.device=cuda", "run.cuda_graphs=true", "parallel.tensor=2"},
     2,
     {"run.cuda_graphs = true with parallel.tensor = 2, whose ranks send messages inside "
      "a microbatch, which only NCCL can record, but comm.backend",
      "write comm.backend = \"nccl\""}},
    {{"run.device=cuda", "run.cuda_graphs=true", "comm.backend=nccl", "batch.micro=2",
      "batch.global=4"},
     2,
     {"run.cuda_graphs = true with batch.global = 4 and batch.micro = 2, which is one "
      "microbatch a step and data rank",
      "write parallel.sharding_strategy = \"FULL_SHARD\"", "batch.global = 8"}},
};

TEST(GraphRules, EachRuleBroken) {
  for (const auto& wrong : cases) expect_one_problem(wrong);
}

}  // namespace
}  // namespace trireme::test
