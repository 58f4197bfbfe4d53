// Nothing multiplies in a type of more bits than the recipe says.
// SPDX-License-Identifier: Apache-2.0
// A step's matrix products are counted by their operands' types, by recipe and model.
#include <gtest/gtest.h>

#include "config/precision.hpp"
#include "kernels/fp8.hpp"
#include "kernels/runtime/product_counts.hpp"
#include "support/mesh_run.hpp"
#include "support/mesh_table.hpp"
#include "support/step.hpp"

namespace trireme::test {
namespace {

constexpr std::int64_t layers = 2;

config::RunConfig config_of(const std::string& model, const std::string& recipe) {
  MeshLine line{model, 1, model, {}, false, false};
  line.overrides = {"model.layers=2",        "model.hidden=64",   "model.heads=4",
                    "model.feed_forward=64", "model.sequence=32", "batch.global=1",
                    "batch.micro=1"};
  line.overrides.push_back(model == "gpt2" ? "model.kv_heads=4" : "model.kv_heads=2");
  if (model == "mixtral") line.overrides.push_back("model.moe.experts=4");
  config::RunConfig config = mesh_config(line, "bf16");
  config.precision = config::precision_of(recipe_named(recipe));
  return config;
}

using Counts = std::map<kernels::ProductTypes, std::int64_t>;

Counts step_of(const config::RunConfig& config) {
  comm::Mesh mesh = comm::Mesh::meta({}, 0);
  kernels::reset_product_counts();
  train_steps(config, mesh, 1, false);
  return kernels::product_counts();
}

std::string describe(const Counts& counts) {
  std::string text;
  for (const auto& [types, n] : counts)
    text += std::string(name_of(types.first)) + " x " +
            std::string(name_of(types.second)) + ": " + std::to_string(n) + "  ";
  return text;
}

// Products that no recipe has in FP8: the head's, three for each of two chunks; a
// router's three; and the twelve of a dense block that stays in bf16.
std::int64_t wide_products(const config::RunConfig& config) {
  const auto& precision = config.precision;
  std::int64_t count = 2 * 3 + 12 * (precision.first_bf16 + precision.last_bf16);
  for (std::int64_t l = 0; l < layers; ++l) count += config.model.is_moe(l) ? 3 : 0;
  return count;
}

// All in the activations' type, but for the products of those layers.
void expect_counts(const config::RunConfig& config) {
  const Recipe& recipe = config.precision.recipe;
  const DType activation = recipe[TensorClass::activation].type;
  config::RunConfig plain = config;
  for (const TensorClass what :
       {TensorClass::forward_operand, TensorClass::backward_operand})
    plain.precision.recipe[what] = recipe[TensorClass::activation];
  const Counts all = step_of(plain);
  ASSERT_EQ(all.size(), 1u) << describe(all);
  const kernels::ProductTypes wide{activation, activation};
  ASSERT_TRUE(all.contains(wide)) << describe(all);
  if (!recipe.fp8()) return;
  const DType forward = recipe[TensorClass::forward_operand].type,
              backward = recipe[TensorClass::backward_operand].type;
  const std::int64_t n = (all.at(wide) - wide_products(config)) / 3;
  ASSERT_GT(n, 0);
  Counts want = {{wide, wide_products(config)}};
  want[{forward, forward}] += n;
  want[{backward, forward}] += 2 * n;
  const Counts got = step_of(config);
  EXPECT_EQ(got, want) << describe(got) << "instead of " << describe(want);
}

TEST(RecipeProducts, AreOfTheTypesOfTheTable) {
  for (const char* model : {"llama", "gpt2", "mixtral"}) {
    for (const char* recipe :
         {"fp64", "fp32", "bf16", "bf16_pure", "bf16_autocast", "bf16_fp32_sum",
          "bf16_no_sum", "fp16", "te_delayed", "te_current", "te_blocks", "mxfp8",
          "ms_amp_o1", "ms_amp_o2", "ms_amp_o3", "fp8_lm"}) {
      SCOPED_TRACE(std::string(model) + " in " + recipe);
      expect_counts(config_of(model, recipe));
    }
  }
}

TEST(RecipeProducts, BlocksThatStayInBf16) {
  config::RunConfig config = config_of("llama", "te_current");
  config.precision.first_bf16 = 1;
  expect_counts(config);
}

// A step counts what it saturates and flushes.
TEST(RecipeProducts, ReportsWhatFp8Loses) {
  for (const char* recipe : {"te_current", "te_delayed", "te_blocks"}) {
    SCOPED_TRACE(recipe);
    config::RunConfig config = config_of("llama", recipe);
    comm::Mesh mesh = comm::Mesh::meta({}, 0);
    engine::Engine engine(config, mesh, Device::host());
    engine.store().initialize(42);
    const std::int64_t T = config.batch.micro * config.model.sequence;
    const Buffer ids(Device::host(), DType::i32, {2 * T}, MemoryClass::data, "ids");
    for (std::int64_t i = 0; i < 2 * T; ++i)
      ids.view().data<std::int32_t>()[i] = static_cast<std::int32_t>(i % 7);
    const std::vector<TensorView> inputs = {ids.view().rows(0, T)},
                                  targets = {ids.view().rows(T, T)};
    const auto step = [&](bool report, double factor) {
      AtGradients observer;
      observer.factor = factor;
      const std::int64_t number = report ? config.precision.report_every : 1;
      engine.train_step(
          {.step = number, .inputs = inputs, .targets = targets, .valid_tokens = 1},
          observer);
    };
    step(false, 1.0);
    EXPECT_TRUE(engine.reports().product_losses().empty());
    step(true, 1.0);
    ASSERT_EQ(engine.reports().product_losses().size(), 3u);
    const auto& m = config.model;
    // Rows of 2 heads of keys and values, and of both halves of the MLP.
    const std::int64_t widths_in = 2 * m.hidden + m.hidden + m.feed_forward;
    const std::int64_t widths_out = 2 * m.hidden + 2 * m.feed_forward + 2 * m.hidden;
    EXPECT_EQ(engine.reports().product_losses()[0].elements, layers * T * widths_in);
    EXPECT_EQ(engine.reports().product_losses()[2].elements, layers * T * widths_out);
    for (const RoundingLosses& lost : engine.reports().product_losses()) {
      EXPECT_EQ(lost.saturated, 0.0);
      EXPECT_LT(lost.flushed, 0.05 * lost.elements);
      EXPECT_GT(lost.scale, 0.0);
    }
    if (config.precision.recipe[TensorClass::forward_operand].scaling != Scaling::delayed)
      continue;
    // Gradients a thousand times as large as the scale knows, and as small.
    step(true, 1024.0);
    EXPECT_GT(engine.reports().product_losses()[2].saturated,
              0.2 * engine.reports().product_losses()[2].elements);
    EXPECT_EQ(engine.reports().product_losses()[0].saturated, 0.0);
    step(true, 0x1p-40);
    EXPECT_GT(engine.reports().product_losses()[2].flushed,
              0.2 * engine.reports().product_losses()[2].elements);
  }
}

// The scale of a weight, and with it its codes, is made of the number that the optimizer
// updates, not of what bf16 makes of it.
TEST(RecipeProducts, CodesAreOfTheWeightsThatAreKept) {
  for (const char* recipe : {"te_current", "te_delayed", "te_blocks", "ms_amp_o1"}) {
    SCOPED_TRACE(recipe);
    const config::RunConfig config = config_of("llama", recipe);
    comm::Mesh mesh = comm::Mesh::meta({}, 0);
    engine::Engine engine(config, mesh, Device::host());
    engine.store().initialize(42);
    float most = 0;
    for (const auto& box : engine.store().state_boxes()) {
      if (box.section != "model" || box.named->tensor.find("_proj") == std::string::npos)
        continue;
      visit_floating(box.data.dtype(), [&]<class T>(T) {
        for (const T w : box.data.reshape({box.data.elements()}).span<T>())
          most = std::max(most,
                          std::abs(static_cast<float>(static_cast<Accumulator<T>>(w))));
      });
    }
    ASSERT_GT(most, 0.0f);
    const std::int64_t T = config.batch.micro * config.model.sequence;
    const Buffer ids(Device::host(), DType::i32, {T}, MemoryClass::data, "ids");
    AtGradients observer;
    engine.train_step({.step = config.precision.report_every,
                       .inputs = {ids.view()},
                       .targets = {ids.view()},
                       .valid_tokens = 1},
                      observer);
    ASSERT_EQ(engine.reports().product_losses().size(), 3u);
    EXPECT_EQ(engine.reports().product_losses()[1].scale,
              double{kernels::fp8_scale(most, kernels::Fp8Format::e4m3)});
  }
}

}  // namespace
}  // namespace trireme::test
