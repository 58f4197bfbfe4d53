// FP8 on meshes: scales are those of whole tensors.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/device_memory.hpp"
#include "parallel/amax_region.hpp"
#include "ranks/equality.hpp"

namespace trireme::test {
namespace {

// Widths that every product of 1, 2 and 4 ranks can have.
const Words sizes = {"model.hidden=64",         "model.heads=4",
                     "model.kv_heads=2",        "model.feed_forward=64",
                     "model.sequence=32",       "precision.compute=fp8",
                     "precision.amax_history=8"};

struct Scales {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> histories;  // of the layers on this rank
};

// One step, for then all meshes have had the same weights.
Scales scales_of(const train::RunConfig& config, comm::Mesh& mesh, int steps) {
  Scales result;
  const auto inspect = [&](train::Engine& engine) {
    for (const StateTensor* state : engine.states()) {
      const auto values = state->value.span<float>();
      result.histories[state->slab.tensor].assign(values.begin(), values.end());
    }
  };
  result.losses = train_steps(config, mesh, steps, false, inspect).losses;
  return result;
}

train::RunConfig config_of(const std::string& recipe, const Words& mesh) {
  return equality_config("llama", "fp8",
                         sizes + Words{"precision.recipe=" + recipe} + mesh);
}

train::RunConfig on_one_rank(train::RunConfig config) {
  const std::int64_t bucket_bytes = config.parallel.bucket_bytes;
  config.parallel = {};
  config.parallel.bucket_bytes = bucket_bytes;
  return config;
}

Scales alone(const std::string& recipe, const std::string& micro, int steps) {
  train::RunConfig config = config_of(recipe, {"batch.micro=" + micro});
  config = on_one_rank(config);
  comm::Mesh mesh = comm::Mesh::meta({}, 0);
  return scales_of(config, mesh, steps);
}

Scales on_mesh(const std::string& recipe, const Words& words, int steps) {
  const train::RunConfig config = config_of(recipe, words);
  comm::Mesh mesh = test_mesh(config);
  return scales_of(config, mesh, steps);
}

// Where every number is the same on both meshes, so is every scale, to the bit.
TEST(Fp8, ScalesOfTheGlobalBatchOnDataAndPipelineRanks) {
  const Scales one = alone("te_delayed", "1", 1);
  ASSERT_FALSE(one.histories.empty());
  const std::string ranks = std::to_string(world().size());
  for (const Words& mesh :
       {Words{"batch.micro=1"}, Words{"parallel.pipeline=" + ranks, "batch.micro=1"},
        Words{"parallel.sharding_strategy=FULL_SHARD", "batch.micro=1"}}) {
    const Scales many = on_mesh("te_delayed", mesh, 1);
    ASSERT_FALSE(many.histories.empty());
    for (const auto& [name, values] : many.histories)
      EXPECT_EQ(values, one.histories.at(name)) << name << " " << mesh.front();
  }
}

// Split tensors: sums are made in another order and rounded to bf16, but weights are the
// same, and so are their scales. A number next to the middle of two codes may take the
// other one, and a largest number that it leads to then differs by their distance.
constexpr float e4m3_step = 0x1p-3f;

TEST(Fp8, ScalesOfSplitTensors) {
  const Scales one = alone("te_delayed", "1", 1);
  const std::string ranks = std::to_string(world().size());
  for (const Words& mesh :
       {Words{"parallel.tensor=" + ranks}, Words{"parallel.context=" + ranks},
        Words{"parallel.tensor=" + ranks, "parallel.sequence=true"}}) {
    if (mesh.front().starts_with("parallel.context") && world().size() > 2)
      continue;  // 32 tokens over 4 ranks are too few for a product
    const Scales many = on_mesh("te_delayed", mesh + Words{"batch.micro=1"}, 1);
    for (const auto& [name, values] : many.histories) {
      const auto& want = one.histories.at(name);
      const std::size_t per = values.size() / 3;  // of x, W and dy, the newest first
      EXPECT_EQ(values[per], want[per]) << name;
      EXPECT_NEAR(values[0] / want[0], 1, e4m3_step) << name;
    }
  }
}

// The largest of all ranks, on all; a NaN of any rank is everyone's.
TEST(Fp8, AmaxIsThatOfAllRanks) {
  train::RunConfig config = config_of("te_current", {"batch.micro=1"});
  comm::Mesh mesh = test_mesh(config);
  comm::Group& group = mesh.replicas();
  const parallel::AmaxRegion region(group, mesh.alone());
  Arena scratch(mesh.device(), 4096, MemoryClass::workspace, "scratch");
  Stream stream(mesh.device());
  const auto agreed = [&](float mine) {
    const Buffer amax(mesh.device(), DType::f32, {1}, MemoryClass::workspace, "amax");
    copy_bytes(stream, TensorView(&mine, DType::f32, {1}), amax.view());
    region.agree(stream, scratch, amax.view());
    copy_bytes(stream, amax.view(), TensorView(&mine, DType::f32, {1}));
    stream.synchronize();
    return mine;
  };
  const int rank = group.rank(), last = group.size() - 1;
  EXPECT_EQ(agreed(static_cast<float>(rank)), static_cast<float>(last));
  EXPECT_EQ(agreed(rank == 0 ? 3e38f : 1e-40f), 3e38f);
  EXPECT_TRUE(std::isnan(agreed(rank == last ? std::nanf("") : 1.0f)));
}

}  // namespace
}  // namespace trireme::test
