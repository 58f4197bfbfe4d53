// Parity: every legal data x tensor (x sequence) mesh equals one rank.
// SPDX-License-Identifier: Apache-2.0
// The gradient of every tensor, the unclipped norm, the loss and the updated weights are
// compared (EQ64 and EQ32 of the design).
#include <gtest/gtest.h>

#include "config/precision.hpp"
#include "support/device.hpp"
#include "support/mesh_run.hpp"
#include "support/world.hpp"

namespace trireme {
namespace {

using test::eq32;
using test::eq64;
using test::expect_equal;
using test::Limits;
using test::Outcome;
using test::relative;
using test::train_steps;

struct Case {
  const char* name;
  model::ModelConfig model;
};

// Awkward on purpose: prime vocabularies, few key/value heads, odd widths.
std::vector<Case> cases() {
  using model::Architecture;
  const model::ModelConfig llama{.architecture = Architecture::llama,
                                 .layers = 2,
                                 .hidden = 48,
                                 .heads = 6,
                                 .kv_heads = 2,
                                 .feed_forward = 37,
                                 .vocabulary = 53,
                                 .sequence = 12,
                                 .rope_theta = 10000.0,
                                 .norm_eps = 1e-5,
                                 .tie_embeddings = false,
                                 .initializer_range = 0.2};
  auto tied = llama;
  tied.tie_embeddings = true;
  tied.kv_heads = 1;
  tied.vocabulary = 7;
  auto eight = llama;
  eight.heads = 8;
  eight.hidden = 32;
  eight.kv_heads = 4;
  const model::ModelConfig gpt2{.architecture = Architecture::gpt2,
                                .layers = 2,
                                .hidden = 48,
                                .heads = 12,
                                .kv_heads = 12,
                                .feed_forward = 50,
                                .vocabulary = 61,
                                .sequence = 12,
                                .rope_theta = 10000.0,
                                .norm_eps = 1e-5,
                                .tie_embeddings = true,
                                .initializer_range = 0.2};
  std::vector<Case> all = {{"llama", llama},
                           {"llama tied, one kv head", tied},
                           {"llama eight", eight},
                           {"gpt2 tied", gpt2}};
  for (std::size_t i = 0; i < kernels::activations.size(); ++i) {
    const auto activation = static_cast<nn::Activation>(i);
    if (activation == llama.row().activation) continue;
    Case& other = all.emplace_back(Case{kernels::activations[i].name, eight});
    other.model.layers = 1;
    other.model.mlp.activation = activation;
  }
  return all;
}

config::RunConfig run_config(const model::ModelConfig& model, DType dtype,
                             const char* optimizer) {
  config::RunConfig config;
  config.model = model;
  config.precision = config::precision_of(recipe_named(name_of(dtype)));
  config.batch = {24, 1};
  config.parallel.bucket_bytes = 4096;  // several buckets
  config.optimizer.name = optimizer;
  config.optimizer.learning_rate = 1e-2;
  config.optimizer.weight_decay = 0.1;
  config.optimizer.clip = 1.0;
  config.z_loss = 1e-3;
  return config;
}

std::vector<comm::MeshShape> meshes(int ranks) {
  std::vector<comm::MeshShape> shapes;
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor == 0) shapes.push_back({.data = ranks / tensor, .tensor = tensor});
  }
  return shapes;
}

void compare_all(DType dtype, const char* optimizer, const Limits& limits, int steps) {
  if (test::is_watched() && dtype == DType::f64)
    GTEST_SKIP() << "fp32 runs the same code";
  comm::World& world = test::world();
  for (const Case& c : cases()) {
    auto config = run_config(c.model, dtype, optimizer);
    comm::Mesh alone = comm::Mesh::meta({}, 0);
    const Outcome one = train_steps(config, alone, steps);
    for (const auto& shape : meshes(world.size())) {
      if (c.model.heads % shape.tensor != 0) continue;
      for (const bool sequence : {false, true}) {
        // Larger microbatches where they divide: fewer, and of several sequences.
        const bool large = sequence && config.batch.global % (3 * shape.data) == 0;
        config.parallel.mesh = shape;
        config.parallel.sequence = sequence;
        config.batch.micro = large ? 3 : 1;
        if (sequence && config.batch.micro * c.model.sequence % shape.tensor != 0)
          continue;
        SCOPED_TRACE(format("{}: data {} tensor {} sequence {} micro {}", c.name,
                            shape.data, shape.tensor, sequence, config.batch.micro));
        comm::Mesh mesh(world, shape);
        expect_equal(train_steps(config, mesh, steps), one, limits);
      }
    }
  }
}

TEST(Parity, Fp64AdamW) { compare_all(DType::f64, "adamw", eq64, 2); }

TEST(Parity, Fp32AdamW) { compare_all(DType::f32, "adamw", eq32, 2); }

TEST(Parity, Fp64Lion) { compare_all(DType::f64, "lion", eq64, 2); }

// SGD has no scale to hide a factor behind: its weights must agree as well.
TEST(Parity, Fp64SgdWeights) {
  comm::World& world = test::world();
  for (const Case& c : cases()) {
    auto config = run_config(c.model, DType::f64, "sgd");
    comm::Mesh alone = comm::Mesh::meta({}, 0);
    const Outcome one = train_steps(config, alone, 2);
    for (const auto& shape : meshes(world.size())) {
      if (c.model.heads % shape.tensor != 0) continue;
      config.parallel.mesh = shape;
      comm::Mesh mesh(world, shape);
      const Outcome many = train_steps(config, mesh, 2);
      for (const auto& [name, tensor] : one.state) {
        EXPECT_LE(relative(many.state.at(name), tensor), 1e-10) << c.name << " " << name;
      }
    }
  }
}

// A negative control: the comparison sees a gradient that is wrong on one tensor alone.
TEST(Parity, SeesOneWrongTensor) {
  auto config = run_config(cases().front().model, DType::f64, "adamw");
  comm::Mesh alone = comm::Mesh::meta({}, 0);
  Outcome one = train_steps(config, alone, 1);
  for (double& x : one.gradients.at("gradient/model.norm.weight")) x *= 1.0 + 1e-9;
  const Outcome other = train_steps(config, alone, 1);
  EXPECT_GT(relative(one.gradients.at("gradient/model.norm.weight"),
                     other.gradients.at("gradient/model.norm.weight")),
            eq64.gradient);
}

}  // namespace
}  // namespace trireme
