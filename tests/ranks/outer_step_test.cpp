// Copies of the model that take steps by themselves, and the step they take together.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "engine/checkpoint_boxes.hpp"
#include "optim/parameter_store.hpp"
#include "ranks/equality.hpp"
#include "support/loaded_checkpoint.hpp"
#include "support/written_checkpoint.hpp"
#include "train/missing_state.hpp"
#include "train/replica_check.hpp"

namespace trireme::test {
namespace {

using optim::OuterConfig;
using optim::Sharding;

// A matrix of 7 x 32 weights on as many copies as there are ranks, or half as many that
// are shared out over two ranks, in f64. Gradients are a function of copy, step and
// place.
class OneMatrix {
 public:
  static constexpr std::int64_t rows = 7, columns = 32;
  static constexpr double rate = 0.1, beta = 0.8;

  OneMatrix(const OuterConfig& outer, int shard)
      : shard_(shard),
        mesh_(world(), {.data = world().size()}, {.shard = shard}),
        copies_(world().size() / shard) {
    weight_.name = "w";
    weight_.shape = {rows, columns};
    weight_.boxes = {{"w", weight_.shape, {0, 0}, {0, 0}, weight_.shape}};
    weight_.initializer = {Initializer::Kind::normal, 1};
    optimizer_.name = "sgd";
    optimizer_.beta1 = beta;
    optim::StoreConfig config;
    config.recipe = recipe_named("fp64");
    config.rule = &optimizer_.rule();
    config.sharding = shard > 1 ? Sharding::weights : Sharding::none;
    config.outer = outer;
    store_.emplace(std::vector<ParamModule>{{"m", {&weight_}}}, config, mesh_,
                   Device::host());
    store_->initialize(1);
  }

  int copies() const { return copies_; }
  static double gradient(int copy, int step, std::int64_t at) {
    return std::sin(0.7 * static_cast<double>(at) + 1.3 * step + copy);
  }

  // Ranks that share out a copy contribute a part of its gradient each.
  void step(int step) {
    store_->begin_step(1);
    store_->fetch(0, Direction::forward);
    store_->open_gradients(0);
    const int copy = world().rank() / shard_;
    const auto g = weight_.gradient.span<double>();
    for (std::size_t i = 0; i < g.size(); ++i)
      g[i] += gradient(copy, step, static_cast<std::int64_t>(i)) / shard_;
    store_->ready(weight_);
    store_->close_gradients(0);
    store_->release(0);
    store_->finish_gradients();
    store_->update(optimizer_, {.learning_rate = rate, .update = step});
  }
  void average() { store_->average_copies(); }

  // By place, what this rank has of a section of the state.
  std::map<std::int64_t, double> state(const std::string& section) {
    std::map<std::int64_t, double> out;
    for (const optim::StateBox& box : store_->state_boxes()) {
      if (box.section != section) continue;
      std::int64_t at = box.global_begin[0] * columns + box.global_begin[1];
      for (std::int64_t i = 0; i < box.data.elements(); ++i)
        out[at++] = box.data.data<double>()[i];
    }
    return out;
  }

 private:
  int shard_;
  comm::Mesh mesh_;
  int copies_;
  Param weight_;
  optim::OptimizerConfig optimizer_;
  std::optional<optim::ParameterStore> store_;
};

// The copies of one weight, by the formulas of the papers.
struct OneWeight {
  OneWeight(double start, int copies)
      : anchor(start),
        weights(static_cast<std::size_t>(copies), start),
        momenta(static_cast<std::size_t>(copies), 0) {}

  void step(int step, std::int64_t at) {
    for (std::size_t c = 0; c < weights.size(); ++c) {
      momenta[c] = OneMatrix::beta * momenta[c] +
                   OneMatrix::gradient(static_cast<int>(c), step, at);
      weights[c] -= OneMatrix::rate * momenta[c];
    }
  }
  static double mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  // SGD with Nesterov's momentum as PyTorch has it, along the negative of the movement.
  void average(const OuterConfig& outer) {
    const double g = anchor - mean(weights);
    velocity = outer.momentum * velocity + g;
    anchor -= outer.learning_rate * (g + outer.momentum * velocity);
    weights.assign(weights.size(), anchor);
    momenta.assign(momenta.size(), mean(momenta));
  }

  double anchor, velocity = 0;
  std::vector<double> weights, momenta;
};

class OuterStep : public testing::TestWithParam<OuterConfig> {};

TEST_P(OuterStep, IsThatOfTheFormula) {
  const OuterConfig outer = GetParam();
  for (const int shard : world().size() == 4 ? std::vector{1, 2} : std::vector{1}) {
    SCOPED_TRACE(shard);
    OneMatrix matrix(outer, shard);
    std::map<std::int64_t, OneWeight> expected;
    for (const auto& [at, start] : matrix.state("model"))
      expected.emplace(at, OneWeight(start, matrix.copies()));
    EXPECT_EQ(world().sum(static_cast<double>(expected.size())),
              matrix.copies() * OneMatrix::rows * OneMatrix::columns);
    for (int step = 1; step <= 3 * outer.every; ++step) {
      matrix.step(step);
      for (auto& [at, weight] : expected) weight.step(step, at);
      if (!outer.ends_round(step)) continue;
      matrix.average();
      for (auto& [at, weight] : expected) weight.average(outer);
      const auto weights = matrix.state("model"),
                 momenta = matrix.state("optimizer/moment1"),
                 velocity = matrix.state("optimizer/outer_momentum");
      EXPECT_EQ(velocity.empty(), !outer.has_momentum());
      for (const auto& [at, weight] : expected) {
        EXPECT_NEAR(weights.at(at), weight.anchor, 1e-13) << at;
        EXPECT_NEAR(momenta.at(at), weight.momenta.front(), 1e-13) << at;
        if (outer.has_momentum()) {
          EXPECT_NEAR(velocity.at(at), -weight.velocity, 1e-13) << at;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rounds, OuterStep,
                         testing::Values(OuterConfig{3, 1, 0}, OuterConfig{2, 0.7, 0},
                                         OuterConfig{3, 0.7, 0.9},
                                         OuterConfig{1, 1, 0.5}));

config::RunConfig config_of(const Words& words) {
  return equality_config("llama", "fp64", Words{"model.layers=2"} + words);
}

// With SGD without momentum the mean of weights after one step is the step along the mean
// of gradients, whatever the copies are made of, and however many real tokens each has.
TEST(OuterRounds, OfOneStepOfSgdAreStepsOfOneRank) {
  const Words sgd{"optimizer.name=sgd", "optimizer.betas=[0.0, 0.95]"};
  std::vector<Words> meshes = {{}};
  if (world().size() == 4)
    meshes = {{"parallel.tensor=2", "parallel.sequence=true"},
              {"parallel.pipeline=2"},
              {"parallel.sharding_strategy=HYBRID_SHARD", "parallel.shard_group=2"},
              {"parallel.sharding_strategy=HYBRID_SHARD", "parallel.shard_group=2",
               "parallel.context=2"}};
  for (const Words& words : meshes) {
    const auto config = config_of(sgd + words + Words{"optimizer.outer.every=1"});
    SCOPED_TRACE(words.empty() ? "data" : words.back());
    comm::Mesh mesh = test_mesh(config);
    const Outcome many = train_steps(config, mesh, 3);
    if (world().rank() != 0) continue;
    const Outcome one = train_alone(config_of(sgd), 3);
    expect_close(many.state, one.state, 1e-13);
    for (std::size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(many.losses[i], one.losses[i], eq64.loss);
  }
}

// Copies differ within a round, and are alike at its end: weights in use, too.
TEST(OuterRounds, EndWithCopiesThatAreAlike) {
  const auto config =
      config_of({"optimizer.outer.every=2", "optimizer.outer.momentum=0.9",
                 "precision.compute=bf16"});
  comm::Mesh mesh = test_mesh(config);
  const auto compare = [&](engine::Engine& engine) {
    train::check_replicas(world(), mesh, engine::checkpoint_boxes(engine, mesh), 0);
  };
  EXPECT_THROW(train_steps(config, mesh, 3, false, compare), comm::Agreed);
  train_steps(config, mesh, 4, false, compare);
  train_steps(config, mesh, 3, false, [&](engine::Engine& engine) {
    engine::StepObserver nobody;
    engine.average_copies(nobody);
    compare(engine);
  });
}

void load(engine::Engine& engine, comm::Mesh& mesh, const std::string& directory) {
  const auto boxes =
      train::boxes_to_load(world(), io::CheckpointReader(directory, io::no_digests),
                           engine::checkpoint_boxes(engine, mesh), "adamw");
  test::load_by_all(world(), directory, boxes);
  engine.store().refresh_weights();
}

TEST(OuterRounds, GoOnFromACheckpointToTheBit) {
  const std::string directory =
      world().broadcast(std::filesystem::temp_directory_path().string() +
                        format("/trireme-outer-{}", ::getpid()));
  const Words words{"optimizer.outer.every=2", "optimizer.outer.momentum=0.9",
                    "optimizer.outer.learning_rate=0.7"};
  const auto config = config_of(words);
  comm::Mesh mesh = test_mesh(config);
  train_steps(config, mesh, 2, true, [&](engine::Engine& engine) {
    io::CheckpointInfo info;
    info.step = 2;
    write_checkpoint(world(), directory, info, engine::checkpoint_boxes(engine, mesh), 0);
  });
  const Outcome through = train_steps(config, mesh, 4);
  const auto resume = [&](const config::RunConfig& with) {
    return train_steps(
        with, mesh, 2, true, {},
        {[&](engine::Engine& engine) { load(engine, mesh, directory); }, 3});
  };
  expect_same_bits(resume(config).state, through.state);
  // Without rounds the same checkpoint goes on, and a checkpoint without the momentum
  // goes on with rounds.
  resume(config_of({}));
  world().agree([&] {
    if (world().rank() == 0) std::filesystem::remove_all(directory);
  });
}

}  // namespace
}  // namespace trireme::test
