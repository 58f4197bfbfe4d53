// Rules about mixtures of experts (model.moe.*, parallel.expert), broken one by one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

const std::vector<Case> cases = {
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "parallel.expert=2", "parallel.expert_memory=0.9"},
     2,
     {"parallel.expert_memory = 0.9 is less than the even load: write 1.0 or more"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "parallel.expert_memory=1.5"},
     2,
     {"parallel.expert_memory = 1.5 has no meaning with parallel.expert = 1, where a "
      "rank "
      "has all experts"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "parallel.expert=2", "parallel.expert_memory=1.5", "precision.compute=fp8"},
     2,
     {"parallel.expert_memory = 1.5 cuts rows that precision.recipe = \"auto\" (that is, "
      "te_current) gives one scale",
      "parallel.expert_memory = 0.0"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "parallel.expert=2", "parallel.expert_memory=1.5", "precision.compute=fp8",
      "precision.recipe=ms_amp_o2"},
     2,
     {"cuts rows that precision.recipe = \"ms_amp_o2\" gives one scale"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "parallel.expert=2", "parallel.expert_memory=1.5", "parallel.pipeline=2",
      "parallel.schedule=zb_h1", "parallel.sharding_strategy=FULL_SHARD"},
     4,
     {"parallel.expert_memory = 1.5 with parallel.schedule = \"zb_h1\" adds to weights' "
      "gradients twice in a microbatch, which parallel.sharding_strategy = "
      "\"FULL_SHARD\" "
      "does not have open: write parallel.sharding_strategy = \"ZERO1\" or "
      "parallel.schedule = \"1f1b\" or parallel.expert_memory = 0.0"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "parallel.expert=2", "parallel.expert_memory=1.5", "parallel.pipeline=2",
      "parallel.schedule=zb_h1", "precision.compute=bf16",
      "precision.recipe=bf16_no_sum"},
     4,
     {"gradients twice in a microbatch, which precision.recipe = \"bf16_no_sum\" does "
      "not "
      "have open"}},
    {{"model.moe.experts=8"},
     1,
     {"model.architecture = \"llama\" with model.moe.experts = 8",
      "only mixtral, deepseek_moe, qwen3_moe, qwen2_moe, deepseek_v2, deepseek_v3, "
      "glm4_moe, gpt_oss, qwen3_5_moe have experts; write model.moe.experts = 0"}},
    {{"model.architecture=mixtral"},
     1,
     {"model.architecture = \"mixtral\" with model.moe.experts = 0: write how many "
      "experts"}},
    {{"model.architecture=deepseek_moe"},
     1,
     {"\"deepseek_moe\" with model.moe.experts = 0"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.top_k=5"},
     1,
     {"model.moe.top_k = 5 is more than model.moe.experts = 4: write model.moe.top_k = 4 "
      "or model.moe.experts = 5"}},
    {{"model.architecture=deepseek_moe", "model.moe.experts=6", "model.feed_forward=48",
      "model.moe.groups=4", "model.moe.groups_used=4"},
     1,
     {"model.moe.groups = 4", "model.moe.experts = 6"}},
    {{"model.architecture=deepseek_moe", "model.moe.experts=6", "model.feed_forward=48",
      "model.moe.groups=2", "model.moe.groups_used=3"},
     1,
     {"model.moe.groups_used = 3 is more than model.moe.groups = 2"}},
    {{"model.architecture=deepseek_moe", "model.moe.experts=6", "model.feed_forward=48",
      "model.moe.groups=3", "model.moe.top_k=3"},
     1,
     {"model.moe.top_k = 3 is more than the experts of model.moe.groups_used = 1"}},
    {{"model.architecture=deepseek_moe", "model.moe.experts=6", "model.feed_forward=48",
      "model.moe.groups_used=2"},
     1,
     {"model.moe.groups_used = 2"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.every=2"},
     1,
     {"model.moe.every = 2 has no meaning with model.architecture = \"mixtral\""}},
    {{"model.architecture=gpt2", "model.mlp_bias=true"},
     1,
     {"model.mlp_bias = true has no meaning with model.activation"}},
    {{"model.architecture=gpt2", "model.kv_heads=4", "model.positions=4",
      "model.sequence=8"},
     1,
     {"model.positions = 4 is less than model.sequence = 8: write model.sequence = 4 or "
      "model.positions = 0"}},
    {{"model.parallel_residual=false"},
     1,
     {"model.parallel_residual = false has no meaning with model.architecture = "
      "\"llama\": remove it"}},
    {{"model.architecture=gpt_oss", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.normalise=false"},
     1,
     {"model.moe.normalise = false has no meaning with model.architecture = "
      "\"gpt_oss\""}},
    {{"model.moe.top_k=3"},
     1,
     {"model.moe.top_k = 3 has no meaning with model.architecture = \"llama\": remove "
      "it"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.shared_experts=1"},
     1,
     {"model.moe.shared_experts = 1 has no meaning with model.architecture = "
      "\"mixtral\": remove it"}},
    {{"model.moe.expert_feed_forward=16"},
     1,
     {"model.moe.expert_feed_forward = 16 has no meaning with model.architecture = "
      "\"llama\": remove it"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.dense_layers=1"},
     1,
     {"model.moe.dense_layers = 1 has no meaning with model.architecture = \"mixtral\": "
      "remove it"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.router=sigmoid"},
     1,
     {"model.moe.router = \"sigmoid\" has no meaning with model.architecture = "
      "\"mixtral\": remove it"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.normalise=false"},
     1,
     {"model.moe.normalise = false has no meaning with model.architecture = \"mixtral\": "
      "remove it"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.scaling=2"},
     1,
     {"model.moe.scaling = 2.0 has no meaning with model.architecture = \"mixtral\": "
      "remove it"}},
    {{"model.moe.capacity_factor=1.5"},
     1,
     {"model.moe.capacity_factor = 1.5 has no meaning with model.architecture = "
      "\"llama\": remove it"}},
    {{"model.moe.aux_loss=0.5"},
     1,
     {"model.moe.aux_loss = 0.5 has no meaning with model.architecture = \"llama\": "
      "remove it"}},
    {{"model.moe.z_loss=0.5"},
     1,
     {"model.moe.z_loss = 0.5 has no meaning with model.architecture = \"llama\": remove "
      "it"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.choice_bias=true"},
     1,
     {"model.moe.choice_bias = true has no meaning with model.architecture = "
      "\"mixtral\": remove it"}},
    {{"model.architecture=gpt2", "model.moe.aux_loss=0.5"},
     1,
     {"model.moe.aux_loss = 0.5 has no meaning with model.architecture = \"gpt2\""}},
    {{"model.architecture=deepseek_moe", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.bias_update_rate=0.5"},
     1,
     {"model.moe.bias_update_rate = 0.5 moves a bias that model.moe.choice_bias = false "
      "leaves out: write model.moe.choice_bias = true"}},
    {{"model.architecture=deepseek_moe", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.dense_layers=3"},
     1,
     {"model.moe.dense_layers = 3 is more than model.layers = 2: write "
      "model.moe.dense_layers = 2"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "model.moe.capacity_factor=1.5", "parallel.context=2"},
     2,
     {"model.moe.capacity_factor = 1.5 with parallel.context = 2",
      "write model.moe.capacity_factor = 0"}},
    {{"parallel.expert=2"},
     2,
     {"parallel.expert = 2 has no meaning with model.architecture = \"llama\"",
      "write parallel.expert = 1"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "parallel.expert=3", "batch.global=9"},
     3,
     {"model.moe.experts = 4 must be divisible by parallel.expert = 3: write "
      "parallel.expert = 1"}},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "parallel.expert=4"},
     2,
     {"parallel.expert = 4 must divide the 2 data x context ranks: write parallel.expert "
      "= 2"},
     Status::resources},
    {{"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=48",
      "parallel.expert=2", "parallel.tensor=2"},
     2,
     {"parallel.expert = 2 must divide the 1 data x context ranks: write parallel.expert "
      "= 1"},
     Status::resources},
    {{"model.architecture=mixtral", "model.moe.experts=6", "model.feed_forward=48",
      "parallel.expert=2", "parallel.sharding_strategy=HYBRID_SHARD",
      "parallel.shard_group=3", "batch.global=6"},
     6,
     {"parallel.expert = 2 and parallel.shard_group = 3: one must divide the other"}},
};

TEST(ExpertRules, EachRuleBroken) {
  for (const auto& wrong : cases) expect_one_problem(wrong);
}

// The rate needs a bias, and a bias needs the architecture: each is told.
TEST(ExpertRules, BiasOfMixtral) {
  const auto [message, status] = error_of([&] {
    config::make_run_config(
        parse_sample({"model.architecture=mixtral", "model.moe.experts=4",
                      "model.feed_forward=48", "model.moe.bias_update_rate=0.5"}),
        1);
  });
  EXPECT_EQ(status, Status::bad_content);
  EXPECT_EQ(count_lines(message), 2) << message;
  expect_contains(message, "model.moe.bias_update_rate = 0.5 has no meaning");
  expect_contains(message, "moves a bias");
}

TEST(ExpertRules, LegalExperts) {
  for (const int expert : {1, 2, 4}) {
    for (const char* strategy : {"NO_SHARD", "ZERO1", "FULL_SHARD"}) {
      for (const char* model : {"mixtral", "deepseek_moe"}) {
        const auto config = config::make_run_config(
            parse_sample({std::string("model.architecture=") + model,
                          "model.moe.experts=4", "model.moe.top_k=4",
                          "model.feed_forward=48",
                          std::string("parallel.sharding_strategy=") + strategy,
                          "parallel.expert=" + std::to_string(expert)}),
            4);
        EXPECT_EQ(config.parallel.folding.expert, expert);
        EXPECT_EQ(config.model.moe.experts, 4);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::test
