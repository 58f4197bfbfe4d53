// Steps that the GPU judges: the bits of those that the host judges, and one wait.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstddef>
#include <cuda_emulation/control.hpp>
#include <limits>
#include <optional>
#include <vector>

#include "engine/device_decision.hpp"
#include "ranks/equality.hpp"
#include "support/device.hpp"
#include "support/state_bytes.hpp"

namespace trireme::test {
namespace {

constexpr kernels::StepLimits limits_of_test{true, 0x1p50};
enum class Judge { gpu, host };

// Asks of a step what a run asks; the host judges where the test says so.
class Watch : public engine::StepObserver {
 public:
  explicit Watch(Judge judge) : judge_(judge) {}

  double factor = 1.0;  // of this rank's gradient
  int timed = 0;        // steps of which the GPU's times came

  std::optional<kernels::StepLimits> limits(std::int64_t) override {
    return judge_ == Judge::gpu ? std::optional(limits_of_test) : std::nullopt;
  }
  double gradient_factor() override { return factor; }
  void device_took(const engine::DeviceTimes& times) override {
    ++timed;
    EXPECT_GE(times.compute, 0);
    EXPECT_GE(times.reduce, 0);
    EXPECT_GE(times.update, 0);
  }
  bool accepts(const engine::StepResult& result, double) override {
    return kernels::math::is_sound(limits_of_test, result.loss, result.gradient_norm);
  }

 private:
  Judge judge_;
};

using Bytes = std::vector<std::byte>;

// What the steps of a run left, on this rank.
struct Trained {
  std::vector<double> losses, norms;
  std::vector<engine::StepResult::Update> updates;
  std::vector<Bytes> states;        // after each step
  std::vector<Bytes> gradients;     // the same
  std::vector<std::int64_t> waits;  // of the host for the GPU, in each step
  int timed = 0;
};

constexpr int steps = 4;

config::RunConfig config_of(const Words& words, const std::string& compute) {
  const int ranks = world().size();
  return equality_config(
      "llama", compute,
      Words{"model.layers=2", "model.sequence=8", "batch.micro=1",
            "batch.global=" + std::to_string(2 * ranks), "run.device=cuda"} +
          words);
}

// `factor` multiplies the last rank's gradient in step 2. lazy: every kernel is loaded by
// its first launch in a step, which waits until the GPU is idle.
Trained train(const Words& words, Judge judge, double factor = 1.0,
              const std::string& compute = "fp32", bool lazy = false) {
  cuda_emulation::set_lazy_loading(lazy);
  const auto config = config_of(words, compute);
  comm::Mesh mesh(world(), config.parallel.mesh, config.parallel.folding, test_device(),
                  world().size() > 1 ? comm::Transport::nccl : comm::Transport::mpi);
  if (lazy) cuda_emulation::forget_loaded_kernels();
  engine::Engine engine(config, mesh, test_device());
  engine.store().initialize(42);
  Watch watch(judge);
  Trained run;
  for (int step = 1; step <= steps; ++step) {
    watch.factor = step == 2 && world().rank() == world().size() - 1 ? factor : 1.0;
    const std::int64_t before = cuda_emulation::host_waits();
    const engine::StepResult result = step_of(engine, config, mesh, watch, step);
    run.waits.push_back(cuda_emulation::host_waits() - before);
    run.losses.push_back(result.loss);
    run.norms.push_back(result.gradient_norm);
    run.updates.push_back(result.update);
    run.states.push_back(bytes_of(engine.store().state_boxes()));
    run.gradients.push_back(bytes_of(engine.store().gradient_boxes()));
  }
  run.timed = watch.timed;
  return run;
}

void expect_same(const Trained& gpu, const Trained& host) {
  EXPECT_EQ(gpu.timed, steps);
  EXPECT_EQ(host.timed, 0);
  EXPECT_TRUE(same_bits(gpu.losses, host.losses));
  EXPECT_TRUE(same_bits(gpu.norms, host.norms));
  EXPECT_EQ(gpu.updates, host.updates);
  for (std::size_t i = 0; i < steps; ++i) {
    EXPECT_TRUE(gpu.states[i] == host.states[i]) << "step " << i + 1;
    EXPECT_TRUE(gpu.gradients[i] == host.gradients[i]) << "step " << i + 1;
  }
}

// Meshes of this test's number of ranks.
std::vector<Words> meshes() {
  const std::string n = std::to_string(world().size());
  if (world().size() == 1) return {{}};
  std::vector<Words> all = {{},
                            {"parallel.sharding_strategy=ZERO1"},
                            {"parallel.sharding_strategy=SHARD_GRAD_OP"},
                            {"parallel.sharding_strategy=FULL_SHARD"},
                            {"parallel.tensor=2"},
                            {"parallel.pipeline=2", "model.tie_embeddings=true"}};
  if (world().size() == 4) {
    all.push_back({"parallel.tensor=2", "parallel.pipeline=2"});
    all.push_back({"parallel.pipeline=2", "parallel.sharding_strategy=ZERO1"});
  }
  return all;
}

TEST(Decision, StepsHaveTheBitsOfTheHosts) {
  for (const Words& mesh : meshes()) {
    const Words words = mesh + Words{"optimizer.clip=0.01"};
    SCOPED_TRACE(testing::PrintToString(words));
    const Trained gpu = train(words, Judge::gpu);
    expect_same(gpu, train(words, Judge::host));
    EXPECT_FALSE(gpu.states[0] == gpu.states[1]);
    EXPECT_GT(gpu.norms[0], 0.01);  // so that it is clipped
  }
}

TEST(Decision, WithEveryRuleAndType) {
  for (const char* rule : {"sgd", "lion"})
    expect_same(
        train({"optimizer.name=" + std::string(rule), "optimizer.clip=0.01"}, Judge::gpu),
        train({"optimizer.name=" + std::string(rule), "optimizer.clip=0.01"},
              Judge::host));
  for (const char* compute : {"bf16", "fp64"})
    expect_same(train({"optimizer.clip=0.01"}, Judge::gpu, 1.0, compute),
                train({"optimizer.clip=0.01"}, Judge::host, 1.0, compute));
}

// Of a step that is not sound nothing is left: weights and moments are those before it,
// and the next step is as if the host had refused it, whatever the gradients hold.
TEST(Decision, AnUnsoundStepChangesNothing) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Words& mesh : meshes())
    for (const double factor : {nan, 0x1p100}) {
      if (!mesh.empty() && factor == 0x1p100) continue;
      SCOPED_TRACE(testing::PrintToString(mesh) + " " + std::to_string(factor));
      const Trained gpu = train(mesh, Judge::gpu, factor);
      EXPECT_EQ(gpu.updates[1], engine::StepResult::Update::refused);
      EXPECT_TRUE(gpu.states[1] == gpu.states[0]);
      EXPECT_FALSE(gpu.states[2] == gpu.states[1]);
      expect_same(gpu, train(mesh, Judge::host, factor));
    }
}

// What the host queues behind the reductions are kernels that are new, too.
TEST(Decision, TheFirstStepDoesNotHangWhereKernelsAreLoadedInIt) {
  for (const Words& mesh : meshes()) {
    SCOPED_TRACE(testing::PrintToString(mesh));
    expect_same(train(mesh, Judge::gpu, 1.0, "fp32", true), train(mesh, Judge::host));
  }
}

// Once all is warm the host waits at the end of the step, and nowhere else. Before, it
// waited for the loss, the norm and the end, and for reductions where there are some.
// With one microbatch: a second one waits for its slot of token ids.
TEST(Decision, TheHostWaitsOnce) {
  for (const Words& mesh : meshes()) {
    SCOPED_TRACE(testing::PrintToString(mesh));
    const Words words = mesh + Words{"batch.global=" + std::to_string(world().size())};
    EXPECT_EQ(train(words, Judge::gpu).waits.back(), 1);
    const std::int64_t before = train(words, Judge::host).waits.back();
    EXPECT_GE(before, world().size() > 1 && mesh.empty() ? 4 : 3);
    EXPECT_LE(before, 4);
  }
}

// Delayed scaling of FP8 reads its magnitudes behind the same wait.
TEST(Decision, HistoriesOfScalesTakeNoOtherWait) {
  const Words words = {"precision.recipe=te_delayed",
                       "precision.report_every=0",
                       "model.hidden=64",
                       "model.feed_forward=64",
                       "model.heads=2",
                       "model.kv_heads=2",
                       "model.sequence=16",
                       "batch.global=" + std::to_string(world().size())};
  const Trained run = train(words, Judge::gpu, 1.0, "fp8");
  EXPECT_EQ(run.waits.back(), 1);
  expect_same(run, train(words, Judge::host, 1.0, "fp8"));
}

}  // namespace
}  // namespace trireme::test
