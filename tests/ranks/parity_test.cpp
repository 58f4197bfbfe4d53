// Parity: on every legal data x tensor (x sequence) mesh, the gradient of every tensor,
// the unclipped norm, the loss and the weights after updates equal those of one rank
// (EQ64 and EQ32 of the design).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/philox.hpp"
#include "kernels/elementwise.hpp"
#include "support/world.hpp"
#include "train/engine.hpp"
#include "train/whole_tensors.hpp"

namespace trireme {
namespace {

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
  return {{"llama", llama},
          {"llama tied, one kv head", tied},
          {"llama eight", eight},
          {"gpt2 tied", gpt2}};
}

train::RunConfig run_config(const model::ModelConfig& model, DType dtype,
                            optim::OptimizerKind optimizer) {
  train::RunConfig config;
  config.model = model;
  config.precision = {dtype, accumulator_of(dtype), accumulator_of(dtype)};
  config.batch = {24, 1};
  config.parallel.bucket_bytes = 4096;  // several buckets
  config.optimizer.kind = optimizer;
  config.optimizer.learning_rate = 1e-2;
  config.optimizer.weight_decay = 0.1;
  config.optimizer.clip = 1.0;
  config.z_loss = 1e-3;
  return config;
}

// Token ids of one sequence of the global batch; targets[s][t] = inputs[s][t + 1] and
// some are ignored, so that ranks have different numbers of real tokens.
std::int32_t token(const train::RunConfig& config, std::int64_t sequence,
                   std::int64_t t) {
  const Random random(11, 5);
  return static_cast<std::int32_t>(
      random.below(static_cast<std::uint64_t>(sequence * 1000 + t),
                   static_cast<std::uint64_t>(config.model.vocabulary)));
}

struct Batch {
  std::vector<Buffer> memory;
  std::vector<TensorView> inputs, targets;
  double valid = 0;  // of the whole global batch
};

Batch make_batch(const train::RunConfig& config, int data_rank) {
  Batch batch;
  const std::int64_t S = config.model.sequence, M = config.microbatches();
  const int ranks = config.parallel.mesh.data;
  const auto target = [&](std::int64_t s, std::int64_t t) {
    return (s * 31 + t * 7) % 5 == 0 ? -100 : token(config, s, t + 1);
  };
  for (std::int64_t s = 0; s < config.batch.global; ++s) {
    for (std::int64_t t = 0; t < S; ++t) batch.valid += target(s, t) >= 0;
  }
  for (std::int64_t m = 0; m < M; ++m) {
    for (int half = 0; half < 2; ++half) {
      batch.memory.emplace_back(Device::host(), DType::i32, Shape{config.batch.micro * S},
                                MemoryClass::data, "ids");
      const TensorView ids = batch.memory.back().view();
      for (std::int64_t row = 0; row < config.batch.micro; ++row) {
        const std::int64_t s = (m * ranks + data_rank) * config.batch.micro + row;
        for (std::int64_t t = 0; t < S; ++t) {
          ids.data<std::int32_t>()[row * S + t] =
              half == 0 ? token(config, s, t) : target(s, t);
        }
      }
      (half == 0 ? batch.inputs : batch.targets).push_back(ids);
    }
  }
  return batch;
}

// Whole tensors by name, in double, the same on every rank of the mesh.
using Tensors = std::map<std::string, std::vector<double>>;

Tensors gather(const std::vector<optim::StoredBox>& boxes, comm::Mesh& mesh) {
  Tensors tensors;
  Stream stream;
  for (const auto& [name, shape] : train::all_tensors(test::world(), boxes)) {
    const Buffer whole(Device::host(), boxes.front().data.dtype(), shape,
                       MemoryClass::workspace, "whole tensor");
    const Buffer wide(Device::host(), DType::f64, shape, MemoryClass::workspace, "");
    train::gather_whole(mesh, boxes, name, whole.view());
    kernels::copy(stream, whole.view(), wide.view());
    const auto values = wide.view().span<double>();
    tensors[name].assign(values.begin(), values.end());
  }
  return tensors;
}

struct Outcome {
  Tensors gradients, state;
  std::vector<double> losses, norms;
};

Outcome train_steps(const train::RunConfig& config, comm::Mesh& mesh, int steps) {
  train::Engine engine(config, mesh, Device::host());
  engine.store().initialize(42);
  const Batch batch = make_batch(config, mesh.coordinate(comm::Axis::data));
  Outcome outcome;
  for (int step = 1; step <= steps; ++step) {
    engine.store().begin_step(config.microbatches());
    double loss = engine.run(batch.inputs, batch.targets, 1.0 / batch.valid);
    engine.store().finish_gradients();
    Stream stream;
    mesh.replicas().all_reduce(stream, TensorView(&loss, DType::f64, {1})).wait();
    outcome.losses.push_back(loss / batch.valid);
    outcome.norms.push_back(engine.store().gradient_norm());
    if (step == 1) outcome.gradients = gather(engine.store().gradient_boxes(), mesh);
    const double norm = outcome.norms.back();
    engine.store().update(config.optimizer, config.optimizer.learning_rate,
                          norm > 1.0 ? 1.0 / norm : 1.0, step);
  }
  outcome.state = gather(engine.store().state_boxes(), mesh);
  return outcome;
}

double relative(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference) / std::sqrt(std::max(size, 1e-300));
}

// Limits of the design's EQ64 and EQ32.
struct Limits {
  double gradient, norm, loss;
};
constexpr Limits eq64{1e-10, 1e-10, 1e-9}, eq32{1e-5, 1e-6, 1e-5};

void expect_equal(const Outcome& mesh, const Outcome& one, const Limits& limits) {
  ASSERT_EQ(mesh.gradients.size(), one.gradients.size());
  for (const auto& [name, gradient] : one.gradients) {
    EXPECT_LE(relative(mesh.gradients.at(name), gradient), limits.gradient) << name;
  }
  EXPECT_NEAR(mesh.norms.front() / one.norms.front(), 1.0, limits.norm);
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(mesh.losses[i], one.losses[i], limits.loss) << "step " << i + 1;
  }
}

std::vector<comm::MeshShape> meshes(int ranks) {
  std::vector<comm::MeshShape> shapes;
  for (int tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor == 0) shapes.push_back({.data = ranks / tensor, .tensor = tensor});
  }
  return shapes;
}

void compare_all(DType dtype, optim::OptimizerKind optimizer, const Limits& limits,
                 int steps) {
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

TEST(Parity, Fp64AdamW) { compare_all(DType::f64, optim::OptimizerKind::adamw, eq64, 2); }

TEST(Parity, Fp32AdamW) { compare_all(DType::f32, optim::OptimizerKind::adamw, eq32, 2); }

// SGD has no scale to hide a factor behind: its weights must agree as well.
TEST(Parity, Fp64SgdWeights) {
  comm::World& world = test::world();
  for (const Case& c : cases()) {
    auto config = run_config(c.model, DType::f64, optim::OptimizerKind::sgd);
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
  auto config =
      run_config(cases().front().model, DType::f64, optim::OptimizerKind::adamw);
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
