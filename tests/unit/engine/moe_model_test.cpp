// Models with MoE feed-forwards: names, sizes, gradients of the whole model, and memory.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "support/tiny_model.hpp"

namespace trireme {
namespace {

using model::Architecture;
using Names = std::set<std::string>;

config::RunConfig tiny(Architecture architecture) {
  config::RunConfig config = test::tiny_run(test::tiny_mixture(architecture));
  auto& moe = config.model.moe;
  if (architecture == Architecture::deepseek_moe) {
    moe.router = kernels::RouterScore::sigmoid;
    moe.expert_feed_forward = 6;
    moe.shared_experts = 2;
    moe.dense_layers = 1;
    moe.scaling = 1.5;
    moe.bias_update_rate = 0.01;
    moe.aux_loss = 0.1;
  }
  return config;
}

struct Model : test::TinyEngine {
  using TinyEngine::TinyEngine;
  // With the losses of the routers; `look` sees the gradients.
  double loss_and_gradients(const std::function<void()>& look = {}) {
    const double loss = TinyEngine::loss_and_gradients(look);
    const nn::RouterLosses losses = engine().expert_loads().losses();
    return loss + losses.balance + losses.z;
  }
};

constexpr Architecture both[] = {Architecture::mixtral, Architecture::deepseek_moe};

TEST(MoeModel, CountsItsParameters) {
  for (const auto architecture : both) {
    const auto config = tiny(architecture);
    Model model(config);
    EXPECT_EQ(model.engine().store().local_elements(),
              model::parameter_count(config.model));
  }
}

TEST(MoeModel, LoadsAreThoseOfTheirLayers) {
  config::RunConfig config = tiny(Architecture::deepseek_moe);
  config.model.layers = 5;
  config.model.moe.dense_layers = 0;
  config.model.moe.mlp_layers = {0, 3};
  Model model(config);
  model.loss_and_gradients();
  const std::span<const double> loads = model.engine().expert_loads().loads();
  const std::int64_t experts = config.model.moe.experts;
  ASSERT_EQ(std::ssize(loads), 5 * experts);
  for (std::int64_t layer = 0; layer < 5; ++layer) {
    double all = 0;
    for (std::int64_t e = 0; e < experts; ++e)
      all += loads[static_cast<std::size_t>(layer * experts + e)];
    EXPECT_EQ(all > 0, config.model.is_moe(layer)) << layer;
  }
}

// Central differences as in stage_test.cpp, of the loss with those of the routers.
TEST(MoeModel, GradientsAreDerivatives) {
  for (const auto architecture : both) {
    Model model(tiny(architecture));
    std::map<const Param*, std::vector<double>> gradients;
    model.loss_and_gradients([&] {
      for (const Param* param : model.engine().store().params()) {
        const auto all = param->gradient.span<double>();
        gradients[param].assign(all.begin(), all.end());
      }
    });
    constexpr double h = 1e-5;
    for (Param* param : model.engine().store().params()) {
      const Random random(23, hash_name(param->name));
      const auto value = param->value.span<double>();
      const std::vector<double>& gradient = gradients.at(param);
      const std::vector<double> before(value.begin(), value.end());
      double expected = 0, size = 0;
      for (std::size_t i = 0; i < value.size(); ++i) {
        expected += gradient[i] * random.normal(i);
        size += gradient[i] * gradient[i];
      }
      const auto shifted = [&](double factor) {
        for (std::size_t i = 0; i < value.size(); ++i)
          value[i] = before[i] + factor * random.normal(i);
        return model.loss_and_gradients();
      };
      const double quotient = (shifted(h) - shifted(-h)) / (2 * h);
      std::copy(before.begin(), before.end(), value.begin());
      EXPECT_GT(size, 0) << param->name;
      EXPECT_NEAR(quotient, expected, 1e-6 * std::sqrt(size) + 1e-7) << param->name;
    }
  }
}

Names names_of(Model& model, const std::string& part) {
  Names names;
  for (const Param* param : model.engine().store().params())
    for (const NamedBox& named : param->boxes)
      if (named.tensor.find(part) != std::string::npos) names.insert(named.tensor);
  for (const StateTensor* state : model.engine().stage().states())
    names.insert(state->named.tensor);
  return names;
}

TEST(MoeModel, NamesAreThoseOfTransformers) {
  Model mixtral(tiny(Architecture::mixtral));
  Names expected;
  const std::string first = "model.layers.0.block_sparse_moe.";
  expected.insert(first + "gate.weight");
  for (const char* e : {"0", "1", "2", "3"})
    for (const char* w : {"w1", "w2", "w3"})
      expected.insert(first + "experts." + e + "." + w + ".weight");
  EXPECT_EQ(names_of(mixtral, "layers.0.block"), expected);
  Model deepseek(tiny(Architecture::deepseek_moe));
  expected.clear();
  const std::string second = "model.layers.1.mlp.";
  expected.insert(second + "gate.weight");
  expected.insert(second + "gate.e_score_correction_bias");
  for (const char* part :
       {"experts.0.", "experts.1.", "experts.2.", "experts.3.", "shared_experts."})
    for (const char* w : {"gate_proj", "up_proj", "down_proj"})
      expected.insert(second + part + w + ".weight");
  EXPECT_EQ(names_of(deepseek, "layers.1.mlp"), expected);
  EXPECT_EQ(names_of(deepseek, "layers.0.mlp.gate").size(),
            2u);  // gate_proj, and a state
}

// Jiang et al., "Mixtral of experts", 2024: 47B parameters, of which a token uses 13B.
TEST(MoeModel, MixtralHasItsKnownSize) {
  model::ModelConfig mixtral{.architecture = Architecture::mixtral,
                             .layers = 32,
                             .hidden = 4096,
                             .heads = 32,
                             .kv_heads = 8,
                             .feed_forward = 14336,
                             .vocabulary = 32000,
                             .sequence = 32768,
                             .rope_theta = 1e6,
                             .norm_eps = 1e-5,
                             .tie_embeddings = false,
                             .initializer_range = 0.02};
  mixtral.moe.experts = 8;
  mixtral.moe.top_k = 2;
  EXPECT_EQ(model::parameter_count(mixtral), 46702792704);
  mixtral.sequence = 0;  // no attention
  EXPECT_DOUBLE_EQ(model::flops_per_token(mixtral).full,
                   6.0 * (12879925248.0 - 32000.0 * 4096.0));
  // Without gates, of which a token uses 2 of 8 as well.
  mixtral.mlp.activation = nn::Activation::gelu;
  constexpr std::int64_t gates = std::int64_t{32} * 8 * 14336 * 4096;
  EXPECT_EQ(model::parameter_count(mixtral), 46702792704 - gates);
  EXPECT_DOUBLE_EQ(
      model::flops_per_token(mixtral).full,
      6.0 * (12879925248.0 - 32000.0 * 4096.0 - static_cast<double>(gates / 4)));
}

// The meta device predicts exactly what the host allocates, and a step allocates nothing.
TEST(MoeModel, PredictedMemoryIsAllocatedMemory) {
  for (const auto architecture : both) {
    const auto config = tiny(architecture);
    Model(config).loss_and_gradients();  // kernels take what they keep
    comm::Mesh mesh = comm::Mesh::meta({}, 0);
    const engine::Engine meta(config, mesh, Device::meta());
    const auto bytes = [](MemoryClass c) { return memory_use(c).bytes; };
    const auto activations = bytes(MemoryClass::activations);
    const auto workspace = bytes(MemoryClass::workspace);
    Model model(config);
    EXPECT_EQ(bytes(MemoryClass::activations) - activations,
              static_cast<std::int64_t>(meta.activation_bytes()));
    EXPECT_EQ(bytes(MemoryClass::workspace) - workspace,
              static_cast<std::int64_t>(meta.workspace_bytes()));
    model.loss_and_gradients();
    const auto before = memory_allocations();
    model.loss_and_gradients();
    EXPECT_EQ(memory_allocations(), before);
  }
}

}  // namespace
}  // namespace trireme
