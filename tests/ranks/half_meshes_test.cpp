// Meshes in 16 bits: in bf16 and in fp16 every axis trains like one rank.
// SPDX-License-Identifier: Apache-2.0
// fp16 has its loss scale, and an overflow on one rank is everyone's.
#include <cmath>

#include "optim/loss_scaler.hpp"
#include "ranks/equality.hpp"
#include "support/step.hpp"

namespace trireme::test {
namespace {

std::vector<Words> meshes() {
  const std::string n = std::to_string(world().size());
  return {{"parallel.sharding_strategy=NO_SHARD"},
          {"parallel.sharding_strategy=FULL_SHARD"},
          {"parallel.tensor=" + n, "parallel.sequence=true"},
          {"parallel.context=" + n},
          {"parallel.pipeline=" + n}};
}

config::RunConfig config_of(const std::string& compute, const Words& words) {
  return equality_config("llama", compute, Words{"model.layers=2"} + words);
}

// EQ16: the gradient of each tensor within sqrt(2 x 0.001) of its size, so that cosines
// are 0.999 at least, the norm within 1 %, 20 losses within 0.02. Those are limits for
// bf16; units of fp16 are an eighth of its.
Limits eq16(const std::string& compute) {
  const double unit = compute == "bf16" ? 1 : 0.125;
  return {std::sqrt(2e-3) * unit, 1e-2 * unit, 2e-2 * unit};
}

// And, as in the table of meshes, no mesh errs twice as much as one rank: the rounding
// errors of some more partial sums are few among those of each product.
TEST(HalfMeshes, TrainLikeOneRank) {
  const int steps = is_slow() ? 2 : 20;
  const Outcome exact = train_alone(config_of("fp64", {}), 1);
  for (const char* compute : {"bf16", "fp16"}) {
    const Outcome one = train_alone(config_of(compute, {}), steps);
    for (const Words& words : meshes()) {
      SCOPED_TRACE(std::string(compute) + " " + words.front());
      const auto config = config_of(compute, words);
      comm::Mesh mesh = test_mesh(config);
      const Outcome many = train_steps(config, mesh, steps, true, {}, {}, false);
      EXPECT_EQ(many.overflows, 0);
      if (world().rank() != 0) continue;
      expect_equal(many, one, eq16(compute));
      for (const auto& [name, gradient] : exact.gradients)
        EXPECT_LE(relative(many.gradients.at(name), gradient),
                  2 * relative(one.gradients.at(name), gradient))
            << name;
    }
  }
}

// Steps with a loss scale.
class ScaledRun {
 public:
  explicit ScaledRun(const config::RunConfig& config)
      : config_(config),
        mesh_(test_mesh(config)),
        engine_(config, mesh_, mesh_.device()),
        observer_({}, true) {
    engine_.store().initialize(42);
  }
  // Whether step `step` was an update.
  bool step(std::int64_t step) {
    const auto result = step_of(engine_, config_, mesh_, observer_, step);
    loss_ = result.loss;
    return result.update == engine::StepResult::Update::done;
  }
  optim::LossScaler& scaler() { return *engine_.scaler(); }
  // On this rank alone.
  void set_scale(double scale) {
    *scaler().state().data<float>() = static_cast<float>(scale);
  }
  double loss() const { return loss_; }
  // Weights and moments of this rank.
  std::vector<std::vector<double>> state() {
    std::vector<std::vector<double>> all;
    for (const auto& box : engine_.store().state_boxes()) {
      const auto values = box.data.span<float>();
      all.emplace_back(values.begin(), values.end());
    }
    return all;
  }

 private:
  config::RunConfig config_;
  comm::Mesh mesh_;
  engine::Engine engine_;
  AtGradients observer_;
  double loss_ = 0;
};

// The next step is to the bit that of a run that came to the same scale by itself.
TEST(HalfMeshes, OverflowOnOneRankIsEveryones) {
  for (const Words& words : meshes()) {
    SCOPED_TRACE(words.front());
    const auto config = config_of("fp16", words);
    ScaledRun clean(config), odd(config);
    EXPECT_TRUE(clean.step(1));
    EXPECT_TRUE(odd.step(1));
    const auto before = odd.state();
    const double scale = odd.scaler().scale();
    const bool last = world().rank() + 1 == world().size();
    // With a loss scale that is far too large on one rank, its gradients overflow.
    if (last) odd.set_scale(scale * 0x1p40);
    EXPECT_FALSE(odd.step(2));
    if (last) odd.set_scale(odd.scaler().scale() / 0x1p40);
    EXPECT_EQ(odd.scaler().scale(), scale / 2);
    EXPECT_EQ(odd.scaler().skipped(), 1);
    EXPECT_EQ(odd.state(), before);
    EXPECT_TRUE(clean.scaler().overflowed());
    EXPECT_TRUE(clean.step(3));
    EXPECT_TRUE(odd.step(3));
    EXPECT_EQ(odd.loss(), clean.loss());
    EXPECT_EQ(odd.state(), clean.state());
  }
}

}  // namespace
}  // namespace trireme::test
