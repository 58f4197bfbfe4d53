// Sampling: greedy, cut to the most likely, and as likely as the softmax says.
// SPDX-License-Identifier: Apache-2.0
#include "infer/sampler.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace trireme::infer {
namespace {

TEST(Sampler, GreedyTakesTheLargest) {
  const std::array logits = {0.5, 2.0, 2.0, -1.0};
  EXPECT_EQ(Sampler({.temperature = 0}).choose(logits, 3), 1);
}

TEST(Sampler, TopKOneIsGreedy) {
  const std::array logits = {0.5, 1.0, 2.0, -1.0};
  const Sampler sampler({.temperature = 2.0, .top_k = 1});
  for (int position = 0; position < 50; ++position) {
    EXPECT_EQ(sampler.choose(logits, position), 2);
  }
}

TEST(Sampler, NucleusKeepsTheFewestThatReachItsMass) {
  const std::array logits = {std::log(0.5), std::log(0.3), std::log(0.15),
                             std::log(0.05)};
  const Sampler sampler({.temperature = 1.0, .top_p = 0.7, .seed = 3});
  std::array<int, 4> counts{};
  for (int position = 0; position < 2000; ++position) {
    ++counts[static_cast<std::size_t>(sampler.choose(logits, position))];
  }
  EXPECT_GT(counts[0], 0);
  EXPECT_GT(counts[1], 0);
  EXPECT_EQ(counts[2] + counts[3], 0);
}

TEST(Sampler, FollowsTheSoftmax) {
  const std::array logits = {std::log(0.5), std::log(0.3), std::log(0.2)};
  const Sampler sampler({.temperature = 1.0, .seed = 9});
  constexpr int draws = 20000;
  std::array<int, 3> counts{};
  for (int position = 0; position < draws; ++position) {
    ++counts[static_cast<std::size_t>(sampler.choose(logits, position))];
  }
  const std::array expected = {0.5, 0.3, 0.2};
  for (std::size_t i = 0; i < 3; ++i) {
    const double deviation = std::sqrt(expected[i] * (1 - expected[i]) / draws);
    EXPECT_NEAR(static_cast<double>(counts[i]) / draws, expected[i], 5 * deviation);
  }
}

TEST(Sampler, IsAFunctionOfSeedAndPosition) {
  const std::array logits = {0.1, 0.2, 0.3, 0.4, 0.5};
  const Sampler a({.seed = 5}), b({.seed = 5}), c({.seed = 6});
  bool differs = false;
  for (int position = 0; position < 100; ++position) {
    EXPECT_EQ(a.choose(logits, position), b.choose(logits, position));
    differs = differs || a.choose(logits, position) != c.choose(logits, position);
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace trireme::infer
