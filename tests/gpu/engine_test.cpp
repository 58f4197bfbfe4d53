// The engine on a GPU against the engine on the host.
// SPDX-License-Identifier: Apache-2.0
// Every gradient of a small model, the norm and the losses are compared.
#include <gtest/gtest.h>

#include <cmath>

#include "ranks/equality.hpp"

namespace trireme::test {
namespace {

class GpuEngine : public testing::TestWithParam<const char*> {
 protected:
  static std::string model() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Models, GpuEngine,
                         testing::Values("llama", "llama-tied", "gpt2", "gpt2-tied",
                                         "mixtral", "deepseek"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(GpuEngine, EqualsTheHostInFp64) {
  const int steps = is_slow() ? 2 : 20;
  const auto config = equality_config(model(), "fp64", {});
  comm::Mesh mesh = test_mesh(config);
  expect_equal(train_steps(config, mesh, steps), train_alone(config, steps), eq64);
}

// Later losses of mixtures part: a token with nearly equal scores may change experts.
TEST_P(GpuEngine, EqualsTheHostInFp32) {
  const auto config = equality_config(model(), "fp32", {});
  const int steps = config.model.has_experts() ? 1 : is_slow() ? 2 : 20;
  comm::Mesh mesh = test_mesh(config);
  expect_equal(train_steps(config, mesh, steps), train_alone(config, steps), eq32);
}

// What bf16 does to a gradient, seen from fp64, is on a GPU about what it is on the host:
// both round the same values, in other orders. Heads of 64 and 128 go through the tensor
// cores, those of 4 do not. A wrong factor or a missing sum is an error of the size of
// the gradient.
TEST(GpuEngineBf16, ErrsLikeTheHost) {
  for (const Words& shape :
       {Words{}, Words{"model.hidden=256", "model.heads=4", "model.kv_heads=2"},
        Words{"model.hidden=256", "model.heads=2", "model.kv_heads=1"}}) {
    const Words words =
        shape + Words{"model.layers=2", "model.sequence=72", "batch.global=2"};
    SCOPED_TRACE(testing::PrintToString(words));
    const auto config = equality_config("llama", "bf16", words);
    comm::Mesh mesh = test_mesh(config);
    const Outcome gpu = train_steps(config, mesh, 1), host = train_alone(config, 1);
    const Outcome exact = train_alone(equality_config("llama", "fp64", words), 1);
    for (const auto& [name, gradient] : exact.gradients) {
      EXPECT_LE(relative(gpu.gradients.at(name), gradient),
                2 * relative(host.gradients.at(name), gradient))
          << name;
    }
    EXPECT_LE(std::abs(gpu.losses[0] - exact.losses[0]), 4e-3 * exact.losses[0]);
  }
}

// Logits are made in the compute type on a GPU, and in fp32 where the deck says so or
// caps them.
TEST(GpuEngineBits, LogitsHaveTheComputeTypeUnlessTheDeckSaysOtherwise) {
  const auto losses = [](const Words& words) {
    const auto config = equality_config("llama", "bf16", Words{"model.layers=1"} + words);
    comm::Mesh mesh = test_mesh(config);
    return train_steps(config, mesh, 1).losses;
  };
  const auto automatic = losses({}), wide = losses({"precision.logits=fp32"});
  EXPECT_TRUE(same_bits(automatic, losses({"precision.logits=compute"})));
  EXPECT_FALSE(same_bits(automatic, wide));
  const Words capped{"model.logit_cap=30.0"};
  EXPECT_TRUE(same_bits(losses(capped), losses(capped + Words{"precision.logits=fp32"})));
}

TEST(GpuEngineBits, AreTheSameTwice) {
  const auto config = equality_config("llama", "bf16", {});
  const auto run = [&] {
    comm::Mesh mesh = test_mesh(config);
    return train_steps(config, mesh, is_slow() ? 1 : 20);
  };
  const Outcome first = run(), second = run();
  expect_same_bits(first.gradients, second.gradients);
  expect_same_bits(first.state, second.state);
  EXPECT_TRUE(same_bits(first.losses, second.losses));
}

}  // namespace
}  // namespace trireme::test
