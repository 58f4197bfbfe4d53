// The whole model on one rank: gradients by finite differences, memory, closed forms.
// SPDX-License-Identifier: Apache-2.0
// Predicted memory equals allocated memory, and the steady state allocates nothing.
#include "model/stage.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/training_flops.hpp"
#include "model/rotary_tables.hpp"
#include "support/tiny_model.hpp"

namespace trireme {
namespace {

config::RunConfig tiny(model::Architecture architecture, bool tied) {
  config::RunConfig config = test::tiny_run(test::tiny_model(architecture));
  config.model.tie_embeddings = tied;
  config.z_loss = 0.01;
  return config;
}

// The last target is missing.
class Model : public test::TinyEngine {
 public:
  explicit Model(const config::RunConfig& config) : TinyEngine(config) {
    targets().span<std::int32_t>().back() = io::ignore_index;
  }
  // Without what training adds to it.
  double cross_entropy() { return engine().evaluate(inputs(), targets()); }
};

// What Stage::evaluate says is the loss where training adds nothing to it.
TEST(Stage, LossesOfTrainingAndEvaluationAgree) {
  auto config = tiny(model::Architecture::llama, false);
  config.z_loss = 0;
  Model model(config);
  const double loss = model.loss_and_gradients();
  EXPECT_NEAR(loss, model.cross_entropy(), 1e-12 * std::abs(loss));
}

// d loss / d e along a random direction of each Param, by central differences. With step
// h the error is O(h^2) + O(eps loss / h): at h = 1e-5 about 1e-9 of the derivative's
// size.
void check_gradients(const config::RunConfig& config) {
  Model model(config);
  optim::ParameterStore& store = model.engine().store();
  std::vector<std::vector<double>> gradients;
  const double loss = model.loss_and_gradients([&] {
    for (const Param* param : store.params()) {
      const auto gradient = param->gradient.span<double>();
      gradients.emplace_back(gradient.begin(), gradient.end());
    }
  });
  EXPECT_GT(loss, model.cross_entropy());  // by the z-loss
  constexpr double h = 1e-5;
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    Param* const param = store.params()[p];
    const std::vector<double>& gradient = gradients[p];
    const Random random(23, hash_name(param->name));
    auto value = param->value.span<double>();
    const std::vector<double> saved(value.begin(), value.end());
    double expected = 0, size = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      expected += gradient[i] * random.normal(i);
      size += gradient[i] * gradient[i];
    }
    const auto shifted = [&](double factor) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        value[i] = saved[i] + factor * random.normal(i);
      }
      return model.loss_and_gradients();
    };
    const double numeric = (shifted(h) - shifted(-h)) / (2 * h);
    std::copy(saved.begin(), saved.end(), value.begin());
    EXPECT_GT(size, 0) << param->name;
    EXPECT_NEAR(numeric, expected, 1e-6 * std::sqrt(size) + 1e-7) << param->name;
  }
}

TEST(Stage, LlamaGradients) { check_gradients(tiny(model::Architecture::llama, false)); }
TEST(Stage, LlamaTiedGradients) {
  check_gradients(tiny(model::Architecture::llama, true));
}
TEST(Stage, Gpt2Gradients) { check_gradients(tiny(model::Architecture::gpt2, true)); }
TEST(Stage, Gpt2UntiedGradients) {
  check_gradients(tiny(model::Architecture::gpt2, false));
}

TEST(Stage, Qwen2Gradients) { check_gradients(tiny(model::Architecture::qwen2, true)); }

TEST(Stage, Qwen3Gradients) {
  auto config = tiny(model::Architecture::qwen3, false);
  config.model.own_head_width = 10;
  check_gradients(config);
}

// Fused tensors, a part of each head that turns, and divisors of long texts.
TEST(Stage, Phi3Gradients) {
  auto config = tiny(model::Architecture::phi3, false);
  config.model.rope_width = 4;
  config.model.rope_scaling.kind = kernels::RopeScalingKind::longrope;
  config.model.rope_scaling.original = 4;
  config.model.rope_scaling.short_divisors = {1, 1};
  config.model.rope_scaling.long_divisors = {1.25, 3};
  check_gradients(config);
}

// The model has more positions than the length that divisors change at: short texts have
// those of short ones, whatever room there is.
TEST(RotaryTables, ShortTextsHaveShortDivisors) {
  auto config = tiny(model::Architecture::phi3, false);
  config.model.rope_scaling.kind = kernels::RopeScalingKind::longrope;
  config.model.rope_scaling.original = 4;
  config.model.rope_width = 4;
  config.model.rope_scaling.short_divisors = {1, 1};
  config.model.rope_scaling.long_divisors = {1.25, 3};
  config.model.sequence = 16;
  const auto table = [&](const model::TextLengths& lengths) {
    const model::RotaryTables tables(config.model, {0, 1}, lengths, DType::f64,
                                     Device::host());
    const TensorView first = tables.of(config.model, 0).cos_sin_PR;
    const auto numbers = first.rows(0, 4).span<double>();
    return std::vector<double>(numbers.begin(), numbers.end());
  };
  const std::vector<double> of_long_room = table({.positions = 16, .any = true});
  EXPECT_EQ(table({.positions = 4, .any = true}), of_long_room);
  EXPECT_NE(table({.positions = 16}), of_long_room);
}

// A layer without positions, another with a window and a base of its own, and biases.
TEST(Stage, SmolLm3Gradients) {
  auto config = tiny(model::Architecture::smollm3, false);
  config.model.rope_layers = {1, 0};
  config.model.window = 3;
  config.model.layer_types = {"sliding_attention", "full_attention"};
  config.model.sliding_rope_theta = 50;
  config.model.attention.bias = true;
  check_gradients(config);
}

// Of a cap that bends the logits by a few percent: third derivatives grow as 1 / cap^2,
// and with them the error of a difference.
TEST(Stage, CappedLogitsGradients) {
  auto config = tiny(model::Architecture::llama, false);
  config.model.logit_cap = 1;
  check_gradients(config);
  config.z_loss = 0;
  Model model(config);
  const double loss = model.loss_and_gradients();
  EXPECT_NEAR(loss, model.cross_entropy(), 1e-12 * std::abs(loss));
  config.model.logit_cap = 0;
  EXPECT_GT(std::abs(Model(config).cross_entropy() - loss), 1e-6 * std::abs(loss));
}

// The gradients of all Params after a step of microbatches that are alike. before: what
// their memory holds before it.
std::vector<double> gradients_of(const config::RunConfig& config, double before) {
  Model model(config);
  const std::vector<Param*>& params = model.engine().store().params();
  for (const Param* param : params)
    if (!param->frozen)
      for (double& x : param->gradient.span<double>()) x = before;
  engine::Batch batch{.step = 1, .valid_tokens = 1};
  batch.inputs.assign(static_cast<std::size_t>(config.microbatches()), model.inputs());
  batch.targets.assign(batch.inputs.size(), model.targets());
  std::vector<double> all;
  test::gradients_of_step(model.engine(), batch, [&] {
    for (const Param* param : params)
      if (!param->frozen)
        for (const double x : param->gradient.span<double>()) all.push_back(x);
  });
  return all;
}

TEST(Stage, MicrobatchesAreAddedUp) {
  for (const bool tied : {false, true}) {
    auto config = tiny(model::Architecture::gpt2, tied);
    const std::vector<double> once = gradients_of(config, 0);
    config.batch.global = 2 * config.batch.micro;
    const std::vector<double> twice = gradients_of(config, 0);
    ASSERT_EQ(once.size(), twice.size());
    double size = 0;
    for (std::size_t i = 0; i < once.size(); ++i) {
      EXPECT_NEAR(twice[i], 2 * once[i], 1e-13 * std::abs(once[i]) + 1e-15) << i;
      size += std::abs(once[i]);
    }
    EXPECT_GT(size, 0);
  }
}

// The first contribution of a step takes the place of what memory holds, and what nobody
// contributes to is zero: a table of both ends, experts without tokens, several
// microbatches.
TEST(Stage, WhatMemoryHoldsIsNoPartOfAStep) {
  std::vector<config::RunConfig> configs;
  for (const bool tied : {false, true})
    configs.push_back(tiny(model::Architecture::gpt2, tied));
  configs.push_back(tiny(model::Architecture::llama, true));
  configs.back().batch.global = 2 * configs.back().batch.micro;
  configs.push_back(test::tiny_run(test::tiny_mixture(model::Architecture::mixtral)));
  configs.back().model.moe.experts = 16;  // of 14 tokens
  configs.back().model.moe.top_k = 1;
  for (const config::RunConfig& config : configs) {
    const std::vector<double> clean = gradients_of(config, 0);
    EXPECT_EQ(gradients_of(config, std::nan("")), clean)
        << &config - configs.data() << ": " << clean.size() << " elements";
  }
}

TEST(Stage, ZeroHeadGivesLogOfTheVocabulary) {
  auto config = tiny(model::Architecture::llama, false);
  config.z_loss = 0;
  Model model(config);
  for (Param* param : model.engine().store().params()) {
    if (param->name != "lm_head.weight") continue;
    for (double& x : param->value.span<double>()) x = 0;
  }
  const double real = static_cast<double>(model.tokens() - 1);  // one is ignored
  EXPECT_NEAR(model.cross_entropy() / real, std::log(19.0), 1e-14 * 19);
}

TEST(Stage, CountsItsParameters) {
  for (const bool tied : {false, true}) {
    for (const auto architecture :
         {model::Architecture::llama, model::Architecture::gpt2,
          model::Architecture::qwen2, model::Architecture::qwen3,
          model::Architecture::phi3}) {
      auto config = tiny(architecture, tied);
      Model model(config);
      EXPECT_EQ(model.engine().store().local_elements(),
                model::parameter_count(config.model));
    }
  }
}

TEST(Stage, Gpt2SmallHasItsKnownSize) {
  const model::ModelConfig gpt2{.architecture = model::Architecture::gpt2,
                                .layers = 12,
                                .hidden = 768,
                                .heads = 12,
                                .kv_heads = 12,
                                .feed_forward = 3072,
                                .vocabulary = 50257,
                                .sequence = 1024,
                                .rope_theta = 10000.0,
                                .norm_eps = 1e-5,
                                .tie_embeddings = true,
                                .initializer_range = 0.02};
  EXPECT_EQ(model::parameter_count(gpt2), 124439808);
  // Positions take part in no product; the tied table does once, as the head.
  EXPECT_DOUBLE_EQ(model::flops_per_token(gpt2).full,
                   6.0 * (124439808 - 1024 * 768) + 12.0 * 12 * 768 * 1024);
}

// Qwen2.5-0.5B and Qwen3-0.6B, as published.
TEST(Stage, QwenHasItsKnownSizes) {
  model::ModelConfig qwen{.architecture = model::Architecture::qwen2,
                          .layers = 24,
                          .hidden = 896,
                          .heads = 14,
                          .kv_heads = 2,
                          .feed_forward = 4864,
                          .vocabulary = 151936,
                          .sequence = 4096,
                          .rope_theta = 1e6,
                          .norm_eps = 1e-6,
                          .tie_embeddings = true,
                          .initializer_range = 0.02};
  EXPECT_EQ(model::parameter_count(qwen), 494032768);
  qwen.architecture = model::Architecture::qwen3;
  qwen.layers = 28;
  qwen.hidden = 1024;
  qwen.heads = 16;
  qwen.kv_heads = 8;
  qwen.own_head_width = 128;
  qwen.feed_forward = 3072;
  EXPECT_EQ(model::parameter_count(qwen), 596049920);
  // 12 L times the width of all heads, which is twice that of the model.
  EXPECT_DOUBLE_EQ(model::flops_per_token(qwen).full,
                   6.0 * 596049920 + 12.0 * 28 * 2048 * 4096);
  // 1024 positions, and of them the first 1024 see fewer: S w - w (w - 1) / 2 pairs, of
  // which twice the mean is 2 w - w^2 / S but for a half pair a token.
  qwen.window = 1024;
  qwen.layer_types.assign(28, std::string(model::sliding_attention));
  qwen.layer_types[3] = model::full_attention;
  EXPECT_DOUBLE_EQ(model::flops_per_token(qwen).full,
                   6.0 * 596049920 + 12.0 * 2048 * (27 * (2048 - 256) + 4096));
}

// Of what is frozen no gradient is made: a third less of its products.
TEST(Stage, FlopsWithoutGradientsOfFrozenMatrices) {
  auto config = tiny(model::Architecture::llama, false);
  const double all = engine::training_flops(config).full;
  ASSERT_EQ(all, model::flops_per_token(config.model).full);
  config.optimizer.groups = {{.pattern = "model.layers.0.mlp.*", .frozen = true}};
  const double mlp =
      3.0 * static_cast<double>(config.model.hidden * config.model.feed_forward);
  EXPECT_EQ(engine::training_flops(config).full, all - 2 * mlp);
  config.optimizer.groups = {{.pattern = "*", .frozen = true}};
  model::ModelConfig without_attention = config.model;
  without_attention.sequence = 0;
  const double N = model::flops_per_token(without_attention).full / 6;
  EXPECT_EQ(engine::training_flops(config).full, all - 2 * N);
  // Matrices of rank 2 beside each down projection are trained.
  config.optimizer.groups = {};
  config.adapter.matrices.rank = 2;
  config.adapter.matrices.targets = {"down_proj"};
  const auto added = static_cast<double>(
      config.model.layers * 2 * (config.model.hidden + config.model.feed_forward));
  EXPECT_EQ(engine::training_flops(config).full, all - 2 * N + 6 * added);
}

// The meta device predicts exactly what the host allocates, and a step allocates nothing.
TEST(Stage, PredictedMemoryIsAllocatedMemory) {
  const auto config = tiny(model::Architecture::llama, false);
  comm::Mesh mesh = comm::Mesh::meta({}, 0);
  const engine::Engine meta(config, mesh, Device::meta());
  const auto bytes = [](MemoryClass c) { return memory_use(c).bytes; };
  const auto activations = bytes(MemoryClass::activations);
  const auto workspace = bytes(MemoryClass::workspace);
  const auto weights = bytes(MemoryClass::weights);
  Model model(config);
  EXPECT_EQ(bytes(MemoryClass::activations) - activations,
            static_cast<std::int64_t>(meta.activation_bytes()));
  EXPECT_EQ(bytes(MemoryClass::weights) - weights,
            static_cast<std::int64_t>(model.engine().store().weight_bytes()));
  EXPECT_GE(bytes(MemoryClass::workspace) - workspace,
            static_cast<std::int64_t>(meta.workspace_bytes()));
  model.loss_and_gradients();
  model.loss_and_gradients();
  const auto allocations = memory_allocations();
  for (int i = 0; i < 3; ++i) model.loss_and_gradients();
  EXPECT_EQ(memory_allocations(), allocations);
}

}  // namespace
}  // namespace trireme
