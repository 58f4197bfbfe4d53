// Which decks let a GPU judge their steps, in one table.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "comm/meta_group.hpp"
#include "engine/device_decision.hpp"
#include "engine/engine.hpp"
#include "ranks/equality.hpp"

namespace trireme::engine {
namespace {

using test::Words;

constexpr Device gpu = Device::cuda(0);

// By an engine that is planned for GPUs of the deck's mesh: it counts the memory of a
// decision where it makes one.
bool decides(const std::string& model, const std::string& compute, const Words& words,
             Device device = gpu, comm::Transport transport = comm::Transport::nccl,
             int ranks = 1) {
  config::RunConfig config = test::equality_config(model, compute, words);
  config.parallel.mesh.data = ranks;
  config.parallel.folding.shard =
      config.parallel.sharding == optim::Sharding::none ? 1 : ranks;
  config.batch.global = ranks;
  comm::Mesh mesh = comm::Mesh::meta(config.parallel.mesh, 0, config.parallel.folding,
                                     device, transport);
  Engine engine(config, mesh, Device::meta());
  return decides_on_device(config, engine.store().config(), mesh, Device::meta());
}

TEST(DecisionRule, GpusJudgeWhereAllIsInTheirQueues) {
  EXPECT_TRUE(decides("llama", "fp32", {}));
  EXPECT_TRUE(decides("llama", "bf16", {"optimizer.clip=1.0"}));
  EXPECT_TRUE(decides("gpt2-tied", "fp32", {"optimizer.name=lion"}));
  EXPECT_TRUE(decides("llama", "fp32", {}, gpu, comm::Transport::nccl, 4));
  EXPECT_TRUE(decides("llama", "fp32", {"parallel.sharding_strategy=FULL_SHARD"}, gpu,
                      comm::Transport::nccl, 4));
  // One rank sends nothing.
  EXPECT_TRUE(decides("llama", "fp32", {}, gpu, comm::Transport::mpi));
}

TEST(DecisionRule, HostsJudgeWhereTheyMustKnowBefore) {
  EXPECT_FALSE(decides("llama", "fp32", {}, Device::host()));
  EXPECT_FALSE(decides("llama", "fp32", {}, gpu, comm::Transport::mpi, 4));
  EXPECT_FALSE(decides("llama", "fp16", {}));
  EXPECT_FALSE(decides("mixtral", "fp32", {}));
  EXPECT_FALSE(decides("llama", "fp32", {"health.spike=skip"}));
  EXPECT_FALSE(decides("llama", "fp32", {"optimizer.name=muon"}));
  EXPECT_FALSE(
      decides("llama", "fp32",
              {"parallel.sharding_strategy=FULL_SHARD", "parallel.offload=optimizer"},
              gpu, comm::Transport::nccl, 4));
  EXPECT_FALSE(decides("llama", "bf16", {"precision.moments=fp8"}));
}

// Nothing of a step grows with the number of ranks on each of them.
TEST(DecisionRule, HostsJudgeForManyRanks) {
  EXPECT_TRUE(decides("llama", "fp32", {}, gpu, comm::Transport::nccl, 256));
  EXPECT_FALSE(decides("llama", "fp32", {}, gpu, comm::Transport::nccl, 512));
}

// A run's observers may ask for a step to be judged by the host: one that does is enough.
class Refuses : public StepObserver {
 public:
  std::optional<kernels::StepLimits> limits(std::int64_t step) override {
    if (step == 2) return std::nullopt;
    return kernels::StepLimits{false, 10};
  }
};

class IsStrict : public StepObserver {
 public:
  std::optional<kernels::StepLimits> limits(std::int64_t) override {
    return kernels::StepLimits{true, 20};
  }
};

TEST(DecisionRule, LimitsOfSeveralObserversHoldTogether) {
  Refuses one;
  IsStrict other;
  StepObserver nobody;
  StepObservers all({&one, &other, &nobody});
  const auto limits = all.limits(1);
  ASSERT_TRUE(limits);
  EXPECT_TRUE(limits->finite);
  EXPECT_EQ(limits->largest_norm, 10);
  EXPECT_FALSE(all.limits(2));
}

}  // namespace
}  // namespace trireme::engine
