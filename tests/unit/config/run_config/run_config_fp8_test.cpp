// Rules about products in FP8: each names its cause, and its advice is accepted.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

using Words = std::vector<std::string>;

// The experts' own width fits; the shared expert's does not.
TEST(RunConfigFp8, TheSharedExpertHasAWidthOfItsOwn) {
  const Words base = {"model.architecture=qwen2_moe", "model.moe.experts=4",
                      "model.moe.expert_feed_forward=32",
                      "model.moe.shared_feed_forward=8", "precision.compute=fp8"};
  expect_mended(base,
                {"command line: model.moe.shared_feed_forward = 8 must be a multiple of "
                 "16 with precision.compute = \"fp8\": write "
                 "model.moe.shared_feed_forward = 16"},
                {"model.moe.shared_feed_forward=16"});
  Words experts = base;
  experts[2] = "model.moe.expert_feed_forward=24";
  experts[3] = "model.moe.shared_feed_forward=0";
  expect_mended(experts, {"write model.moe.expert_feed_forward = 32"},
                {"model.moe.expert_feed_forward=32"});
}

// What cannot be in FP8: the recipe that the deck names would contradict bf16, and so
// would blocks that stay in it.
TEST(RunConfigFp8, Bf16ComesWithAllThatHasToChange) {
  const Words linear = {"model.architecture=qwen3_5", "model.linear.key_heads=4",
                        "model.linear.value_heads=8", "model.linear.key_width=8",
                        "model.linear.value_width=8", "model.feed_forward=64",
                        "precision.recipe=ms_amp_o2", "precision.compute=fp8",
                        "precision.first_bf16=1"};
  const Words fix = {"precision.compute=bf16", "precision.recipe=auto",
                     "precision.first_bf16=0"};
  expect_mended(linear,
                {"write precision.compute = \"bf16\" and precision.recipe = \"auto\" and "
                 "precision.first_bf16 = 0"},
                fix);
  Words plain = linear;
  plain[6] = "precision.recipe=auto";
  plain[8] = "precision.first_bf16=0";
  expect_mended(plain, {"yet; write precision.compute = \"bf16\""},
                {"precision.compute=bf16"});
  const Words adapter = {"adapter.rank=2", "model.feed_forward=64",
                         "precision.compute=fp8", "precision.recipe=te_blocks"};
  Words coded = adapter, scaled = adapter;
  coded.push_back("adapter.quantize=stored");
  scaled.insert(scaled.end(), {"adapter.dora=true", "model.from=a"});
  for (const Words& wrong : {coded, scaled})
    expect_mended(wrong,
                  {"or precision.compute = \"bf16\" and precision.recipe = \"auto\""},
                  {"precision.compute=bf16", "precision.recipe=auto"});
}

TEST(RunConfigFp8, TheLossScaleBeginsAboveItsFloor) {
  expect_mended(
      {"precision.compute=fp16", "precision.loss_scale=2",
       "precision.loss_scale_floor=4"},
      {"precision.loss_scale_floor = 4.0 is more than precision.loss_scale = 2.0",
       "write precision.loss_scale_floor = 2 or less"},
      {"precision.loss_scale_floor=2"});
}

TEST(RunConfigFp8, ALossScaleIsForFp16Alone) {
  for (const char* key : {"loss_scale=2", "loss_scale_interval=2", "loss_scale_floor=4"})
    for (const char* compute : {"fp32", "bf16", "fp64"})
      expect_mended(
          {std::string("precision.compute=") + compute, std::string("precision.") + key},
          {"has no meaning with precision.compute", "write precision."},
          {"precision.compute=fp16"});
}

TEST(RunConfigFp8, AHistoryOfScalesIsForDelayedScalingAlone) {
  const Words delayed = {"precision.compute=fp8", "precision.recipe=te_delayed"};
  for (const char* key : {"precision.amax_history=8", "precision.margin=1"}) {
    expect_mended({"precision.compute=fp8", "precision.recipe=te_current", key},
                  {"has no meaning with precision.recipe = \"te_current\": write ",
                   "or precision.recipe = \"te_delayed\""},
                  delayed);
    expect_mended({"precision.compute=bf16", key}, {"has no meaning with"}, delayed);
  }
}

// A run that was started before these rules is still read.
TEST(RunConfigFp8, ACheckpointsDeckMayHaveKeysWithoutEffect) {
  for (const Words& old : {Words{"precision.compute=bf16", "precision.loss_scale=2"},
                           Words{"precision.compute=fp8", "precision.recipe=te_current",
                                 "precision.amax_history=8", "precision.margin=1"}}) {
    EXPECT_THROW(config::make_run_config(parse_sample(old), 1), Error);
    EXPECT_NO_THROW(config::stored_run_config(parse_sample(old), 1));
  }
  EXPECT_THROW(config::stored_run_config(parse_sample({"model.heads=5"}), 1), Error);
}

// The scale of a loss in fp16.
TEST(RunConfigFp8, Bf16InsteadOfFp16ComesWithTheRecipe) {
  expect_mended({"precision.error_feedback=true", "precision.compute=fp16",
                 "precision.recipe=fp16", "precision.gradient_reduce=bf16"},
                {"or precision.compute = \"bf16\" and precision.recipe = \"auto\""},
                {"precision.compute=bf16", "precision.recipe=auto"});
}

// A model's sizes are not the deck's to choose.
TEST(RunConfigFp8, SizesOfTheModelToStartFromAreNotAdvised) {
  const Words fix = {"precision.compute=bf16", "precision.recipe=auto"};
  const Words base = {"model.from=a", "precision.compute=fp8",
                      "precision.recipe=te_blocks"};
  const Words latent = {
      "model.architecture=deepseek_v2", "model.moe.experts=4", "model.feed_forward=64",
      "model.latent.width=24",          "model.head_width=32", "model.rope.width=16"};
  const std::vector<Words> sizes = {
      {"model.hidden=72", "model.head_width=16", "model.feed_forward=64"},
      {"model.feed_forward=40"},
      {"model.heads=5", "model.kv_heads=1", "model.head_width=8",
       "model.feed_forward=64"},
      {"model.architecture=mixtral", "model.moe.experts=4", "model.feed_forward=64",
       "model.moe.expert_feed_forward=24"},
      latent};
  for (const Words& each : sizes) {
    Words deck = base;
    deck.insert(deck.end(), each.begin(), each.end());
    expect_mended(deck,
                  {": write precision.compute = \"bf16\" and precision.recipe = "
                   "\"auto\""},
                  fix);
  }
  // Keys that it leaves open are.
  expect_mended({"model.from=a", "precision.compute=fp8", "model.feed_forward=64",
                 "model.sequence=33"},
                {": write model.sequence = 48"}, {"model.sequence=48"});
  expect_mended({"model.from=a", "parallel.tensor=3"}, {": write parallel.tensor = 1"},
                {"parallel.tensor=1"}, 3);
}

}  // namespace
}  // namespace trireme::test
