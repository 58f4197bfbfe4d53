// RunConfig: what a deck means, and the decks that come with the program.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "config/deck_table.hpp"
#include "config/precision.hpp"
#include "unit/config/deck_sample.hpp"

namespace trireme::test {
namespace {

using config::make_run_config;
using config::RunConfig;
using config::StepRules;

RunConfig config_of(const std::vector<std::string>& overrides = {}, int ranks = 1) {
  return make_run_config(parse_sample(overrides), ranks);
}

TEST(RunConfig, Defaults) {
  const RunConfig config = config_of();
  EXPECT_EQ(config.run.directory, "runs/run");
  EXPECT_EQ(config.run.device, config::DeviceChoice::automatic);
  EXPECT_EQ(config.run.steps, 10);
  EXPECT_EQ(config.model.architecture, model::Architecture::llama);
  EXPECT_EQ(config.model.kv_heads, 4);
  EXPECT_EQ(config.model.feed_forward, 192);  // 8/3 x 64 = 170.7
  EXPECT_EQ(config.model.vocabulary, 257);
  EXPECT_EQ(config.data.vocabulary, 257);
  EXPECT_EQ(config.data.sequence, 32);
  EXPECT_EQ(config.data.paths.size(), 1u);
  EXPECT_EQ(config.parallel.mesh, comm::MeshShape{});
  EXPECT_EQ(config.parallel.bucket_bytes, 0);
  EXPECT_EQ(config.precision.compute, DType::f32);
  EXPECT_EQ(config.optimizer.name, "adamw");
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(config.optimizer.steps, 10);
  EXPECT_EQ(config.microbatches(), 8);
  EXPECT_EQ(config.checkpoint.resume, "auto");
  EXPECT_EQ(config.health.timeout_seconds, 600);
}

TEST(RunConfig, EveryKeyOfTheTableIsRead) {
  const io::Deck deck = parse_sample();
  make_run_config(deck, 1);
  EXPECT_EQ(deck.unread(), std::vector<std::string>{});
}

TEST(RunConfig, EveryValueArrives) {
  const RunConfig c = config_of({"run.name=a",
                                 "run.directory=d/e",
                                 "run.seed=7",
                                 "run.threads=3",
                                 "run.time_limit=2 h",
                                 "model.architecture=gpt2",
                                 "model.vocabulary=300",
                                 "model.norm_eps=1e-6",
                                 "model.tie_embeddings=true",
                                 "model.initializer_range=0.5",
                                 "model.z_loss=1e-4",
                                 "data.source=tokens",
                                 "data.validation_paths=[\"v\"]",
                                 "batch.micro=2",
                                 "parallel.tensor=2",
                                 "parallel.sequence=true",
                                 "parallel.bucket_bytes=1 MiB",
                                 "comm.timeout_seconds=9",
                                 "precision.compute=fp64",
                                 "optimizer.name=sgd",
                                 "optimizer.learning_rate=0.5",
                                 "optimizer.betas=[0.1, 0.2]",
                                 "optimizer.eps=1e-3",
                                 "optimizer.weight_decay=0.3",
                                 "optimizer.clip=0.4",
                                 "optimizer.schedule.name=wsd",
                                 "optimizer.schedule.warmup=2",
                                 "optimizer.schedule.decay=3",
                                 "optimizer.schedule.final_fraction=0.25",
                                 "checkpoint.every=6",
                                 "checkpoint.keep=6",
                                 "checkpoint.keep_every=50",
                                 "checkpoint.keep_best=3",
                                 "checkpoint.async=true",
                                 "checkpoint.partner=7",
                                 "checkpoint.partner_directory=$TMPDIR",
                                 "checkpoint.resume=never",
                                 "checkpoint.load_on_mesh_change=false",
                                 "metrics.every=2",
                                 "metrics.validate_every=3",
                                 "metrics.validate_sequences=8",
                                 "health.nan=skip",
                                 "health.watchdog_seconds=11",
                                 "health.slow_factor=2.5",
                                 "health.spike=stop",
                                 "health.spike_threshold=4.5",
                                 "health.spike_window=17",
                                 "health.skip_limit=3",
                                 "health.skip_window=19",
                                 "health.check_replicas_every=6",
                                 "debug.check_collectives=true",
                                 "debug.dump_gradients=[1, 10]",
                                 "debug.fault=kill@3@1"},
                                4);
  EXPECT_EQ(c.run.name + c.run.directory, "ad/e");
  EXPECT_EQ(c.run.seed, 7u);
  EXPECT_EQ(c.run.threads, 3);
  EXPECT_EQ(c.run.time_limit, 7200);
  EXPECT_EQ(c.model.architecture, model::Architecture::gpt2);
  EXPECT_EQ(c.model.feed_forward, 256);
  EXPECT_EQ(c.model.vocabulary, 300);
  EXPECT_EQ(c.model.norm_eps, 1e-6);
  EXPECT_TRUE(c.model.tie_embeddings);
  EXPECT_EQ(c.model.initializer_range, 0.5);
  EXPECT_EQ(c.z_loss, 1e-4);
  EXPECT_EQ(c.data.kind, io::SourceKind::tokens);
  EXPECT_EQ(c.data.seed, 7u);
  EXPECT_EQ(c.validation.paths, std::vector<std::string>{"v"});
  EXPECT_EQ(c.parallel.mesh, (comm::MeshShape{1, 2, 1, 2}));
  EXPECT_TRUE(c.parallel.sequence);
  EXPECT_EQ(c.parallel.bucket_bytes, 1 << 20);
  EXPECT_EQ(c.precision.compute, DType::f64);
  EXPECT_EQ(c.precision.accumulate, DType::f64);
  EXPECT_EQ(c.precision.gradient_reduce, DType::f64);
  EXPECT_EQ(c.optimizer.name, "sgd");
  EXPECT_EQ(c.optimizer.learning_rate, 0.5);
  EXPECT_EQ(c.optimizer.beta1, 0.1);
  EXPECT_EQ(c.optimizer.beta2, 0.2);
  EXPECT_EQ(c.optimizer.eps, 1e-3);
  EXPECT_EQ(c.optimizer.weight_decay, 0.3);
  EXPECT_EQ(c.optimizer.clip, 0.4);
  EXPECT_EQ(c.optimizer.schedule.kind, optim::DecayStyle::wsd);
  EXPECT_EQ(c.optimizer.schedule.warmup, 2);
  EXPECT_EQ(c.optimizer.schedule.decay, 3);
  EXPECT_EQ(c.optimizer.schedule.final_fraction, 0.25);
  EXPECT_EQ(c.checkpoint.every, 6);
  EXPECT_EQ(c.checkpoint.keep, 6);
  EXPECT_EQ(c.checkpoint.keep_every, 50);
  EXPECT_EQ(c.checkpoint.keep_best, 3);
  EXPECT_EQ(c.checkpoint.partner, 7);
  EXPECT_EQ(c.checkpoint.partner_directory, "$TMPDIR");
  EXPECT_TRUE(c.checkpoint.async);
  EXPECT_EQ(c.checkpoint.resume, "never");
  EXPECT_FALSE(c.checkpoint.load_on_mesh_change);
  EXPECT_EQ(c.metrics.every, 2);
  EXPECT_EQ(c.metrics.validate_every, 3);
  EXPECT_EQ(c.metrics.validate_sequences, 8);
  EXPECT_EQ(c.health.steps.nan, StepRules::Reaction::skip);
  EXPECT_EQ(c.health.steps.spike, StepRules::Reaction::stop);
  EXPECT_EQ(c.health.steps.spike_threshold, 4.5);
  EXPECT_EQ(c.health.steps.spike_window, 17);
  EXPECT_EQ(c.health.steps.skip_limit, 3);
  EXPECT_EQ(c.health.steps.skip_window, 19);
  EXPECT_EQ(c.health.slow_factor, 2.5);
  EXPECT_EQ(c.health.check_replicas_every, 6);
  EXPECT_TRUE(c.debug.check_collectives);
  EXPECT_EQ(c.health.timeout_seconds, 9);
  EXPECT_EQ(c.health.watchdog_seconds, 11);
  EXPECT_EQ(c.debug.dump_gradients, (std::vector<std::int64_t>{1, 10}));
  EXPECT_EQ(c.debug.fault, "kill@3@1");
  EXPECT_EQ(c.microbatches(), 2);
}

TEST(RunConfig, Bf16KeepsMastersInFp32) {
  const RunConfig config = config_of({"precision.compute=bf16", "precision.master=fp32",
                                      "precision.gradient_reduce=fp32"});
  EXPECT_EQ(config.precision.compute, DType::bf16);
  EXPECT_EQ(config.precision.accumulate, DType::f32);
  EXPECT_EQ(config.precision.recipe.name, "bf16");
  EXPECT_EQ(config.precision.recipe[TensorClass::weight].type, DType::bf16);
}

// Every recipe's name is a value of precision.recipe, and precision.compute alone chooses
// the one of its name.
TEST(RunConfig, DecksCanNameEveryRecipe) {
  std::string choices = "auto";
  for (const Recipe& recipe : recipes()) choices += "|" + std::string(recipe.name);
  for (const auto& key : config::deck_table()) {
    if (key.section != "precision" || key.name != "recipe") continue;
    EXPECT_EQ(key.choices, choices);
  }
  for (const char* compute : {"fp64", "fp32", "bf16"})
    EXPECT_EQ(
        config_of({std::string("precision.compute=") + compute}).precision.recipe.name,
        compute);
}

TEST(RunConfig, KeysReplaceClassesOfARecipe) {
  const io::Deck deck = parse_sample(
      {"precision.compute=fp8", "precision.recipe=te_delayed", "precision.weights=bf16",
       "precision.moments=fp8", "precision.master=fp16", "precision.gradient_reduce=bf16",
       "precision.rounding=stochastic"});
  const Recipe recipe = config::read_recipe(deck);
  EXPECT_EQ(recipe[TensorClass::weight].type, DType::bf16);
  EXPECT_EQ(recipe[TensorClass::weight_traffic].type, DType::bf16);
  EXPECT_EQ(recipe[TensorClass::moment1], (Precision{DType::e4m3, Scaling::current}));
  EXPECT_EQ(recipe[TensorClass::moment2], (Precision{DType::e4m3, Scaling::current}));
  EXPECT_EQ(recipe[TensorClass::master].type, DType::f16);
  EXPECT_EQ(recipe[TensorClass::gradient_traffic].type, DType::bf16);
  EXPECT_EQ(recipe[TensorClass::forward_operand],
            (Precision{DType::e4m3, Scaling::delayed}));
  EXPECT_TRUE(recipe.stochastic);
  const auto chance = [](const std::vector<std::string>& words) {
    return config::read_recipe(parse_sample(words)).stochastic;
  };
  const std::vector<std::string> nanotron = {"precision.compute=fp8",
                                             "precision.recipe=nanotron_fp8"};
  EXPECT_TRUE(chance(nanotron));
  EXPECT_FALSE(chance({nanotron[0], nanotron[1], "precision.rounding=nearest"}));
  EXPECT_FALSE(chance({"precision.compute=bf16", "precision.recipe=bf16_pure"}));
}

// The effective deck is as legal as the deck it was made from, for both architectures.
TEST(RunConfig, EffectiveDeckIsLegal) {
  for (const char* architecture : {"llama", "gpt2"}) {
    const io::Deck deck =
        parse_sample({std::string("model.architecture=") + architecture});
    const io::Deck again =
        io::Deck::parse(deck.effective(), "again", {}, config::deck_table());
    EXPECT_EQ(make_run_config(again, 2).model.feed_forward,
              make_run_config(deck, 2).model.feed_forward);
  }
}

TEST(RunConfig, DecksOfTheProgram) {
  const std::string inputs = std::string(TRIREME_SOURCE_DIR) + "/inputs/";
  const auto quickstart = config::load_run(inputs + "quickstart.toml", {}, 4);
  EXPECT_EQ(quickstart.config.parallel.mesh, (comm::MeshShape{1, 2, 1, 2}));
  EXPECT_TRUE(quickstart.config.parallel.sequence);
  const auto gpt2 = config::load_run(inputs + "gpt2-124m.toml",
                                     std::vector<std::string>{"parallel.tensor=2"}, 2);
  EXPECT_EQ(gpt2.config.model.feed_forward, 3072);
  EXPECT_EQ(gpt2.config.model.vocabulary, 50257);
  const auto llama = config::load_run(inputs + "llama-small.toml", {}, 8);
  const auto qwen3 = config::load_run(inputs + "qwen3-0.6b.toml", {}, 8);
  EXPECT_EQ(qwen3.config.model.head_width(), 128);
  const auto mesh_5d = config::load_run(inputs + "mesh-5d.toml", {}, 16);
  EXPECT_EQ(mesh_5d.config.parallel.mesh,
            (comm::MeshShape{.pipeline = 2, .data = 2, .context = 2, .tensor = 2}));
  const auto moe = config::load_run(inputs + "moe-small.toml", {}, 4);
  EXPECT_TRUE(moe.config.model.has_experts());
  EXPECT_EQ(llama.config.data.kind, io::SourceKind::tokens);
}

// Everything wrong is said at once: syntax of overrides, keys, values and rules.
TEST(RunConfig, KeysAndRulesAreReportedTogether) {
  const auto deck = io::Deck::parse_leniently(
      sample_deck + "model.head = 3\noptimizer.eps = 2\nparallel.tensor = 3\n", "x.toml",
      {}, config::deck_table());
  const auto [message, status] = error_of([&] { make_run_config(deck, 3); });
  EXPECT_EQ(status, Status::bad_content);
  expect_contains(message, "x.toml:8:7: model.head: unknown key");
  expect_contains(message, "x.toml:9:17: optimizer.eps = 2: must be between 1e-37 and 1");
  expect_contains(message, "model.heads = 4 must be divisible by parallel.tensor = 3");
  EXPECT_EQ(count_lines(message), 3) << message;
}

// Rules about a key that is wrong in itself are not judged, and nothing divides by zero.
TEST(RunConfig, WrongKeysAreNotJudgedFurther) {
  for (const auto& key : config::deck_table()) {
    const std::string name = std::string(key.section) + "." + std::string(key.name);
    const auto deck = io::Deck::parse_leniently(
        sample_deck, "x.toml", std::vector{name + "={}"}, config::deck_table());
    ASSERT_EQ(deck.problems().size(), 1u) << name;
    const auto [message, status] = error_of([&] { make_run_config(deck, 2); });
    EXPECT_EQ(status, Status::command_line) << message;
    EXPECT_EQ(count_lines(message), 1) << message;
  }
  const auto broken =
      io::Deck::parse_leniently("[run\n", "x.toml", {}, config::deck_table());
  const std::string syntax = error_of([&] { make_run_config(broken, 3); }).first;
  EXPECT_EQ(count_lines(syntax), 1) << syntax;
  const auto empty = io::Deck::parse_leniently("", "x.toml", {}, config::deck_table());
  const auto [message, status] = error_of([&] { make_run_config(empty, 2); });
  EXPECT_EQ(status, Status::bad_content);
  for (const char* key : {"run.steps", "model.layers", "model.hidden", "model.heads",
                          "model.sequence", "batch.global"})
    expect_contains(message, std::string("x.toml: ") + key + ": must be given");
}

}  // namespace
}  // namespace trireme::test
