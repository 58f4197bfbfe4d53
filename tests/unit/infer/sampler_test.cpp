// Sampling: greedy, cut to the most likely, and as likely as the softmax says.
// SPDX-License-Identifier: Apache-2.0
#include "infer/sampler.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace trireme::infer {
namespace {

TEST(Sampler, GreedyTakesTheLargest) {
  const std::array logits = {0.5, 2.0, 2.0, -1.0};
  EXPECT_EQ(Sampler({.temperature = 0}).choose(logits, 3), 1);
}

TEST(Sampler, RefusesWhatIsNoNumber) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const double wrong : {nan, infinity, -infinity})
    for (const double temperature : {0.0, 1.0})
      EXPECT_THROW(
          Sampler({.temperature = temperature}).choose(std::array{1.0, wrong, 2.0}, 3),
          Error);
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

// How often each token is drawn.
std::array<int, 5> counts_of(const SamplerConfig& config, std::span<const double> logits,
                             std::span<const std::int32_t> text = {}) {
  std::array<int, 5> counts{};
  for (int position = 0; position < 1000; ++position)
    ++counts[static_cast<std::size_t>(Sampler(config).choose(logits, position, text))];
  return counts;
}
const std::array five = {std::log(0.4), std::log(0.3), std::log(0.15), std::log(0.1),
                         std::log(0.05)};

TEST(Sampler, RepetitionsCostLogits) {
  const std::array logits = {2.0, 1.5, -1.0, -1.2, 0.0};
  const std::array<std::int32_t, 3> text = {0, 0, 2};
  // 2 / 2 = 1 < 1.5, once for a token however often it is there; -1 * 2 < -1.2.
  const Sampler greedy({.temperature = 0, .repetition_penalty = 2});
  EXPECT_EQ(greedy.choose(logits, 0, text), 1);
  const std::array negative = {-1.0, -1.5, -1.9, -5.0, -9.0};
  EXPECT_EQ(greedy.choose(negative, 0, text), 1);
}

TEST(Sampler, MinPIsAPartOfTheLikeliest) {
  const auto counts = counts_of({.min_p = 0.3}, five);  // 0.15 / 0.4 is above, 0.1 below
  EXPECT_GT(counts[2], 0);
  EXPECT_EQ(counts[3] + counts[4], 0);
}

TEST(Sampler, TypicalTokensAreNearestToTheEntropy) {
  // The entropy is 1.39; surprises are 0.92, 1.20, 1.90, 2.30 and 3.00, so that the
  // second comes first, then the first: together 0.7.
  const auto one = counts_of({.typical_p = 0.2}, five);
  EXPECT_EQ(one[1], 1000);
  const auto two = counts_of({.typical_p = 0.6}, five);
  EXPECT_EQ(two[0] + two[1], 1000);
  EXPECT_GT(two[0], 0);
}

TEST(Sampler, TopKKeepsThoseThatAreAsLikely) {
  const std::array logits = {1.0, 2.0, 1.0, 0.0, 1.0};
  const auto counts = counts_of({.top_k = 2}, logits);
  EXPECT_GT(counts[0], 0);
  EXPECT_GT(counts[2], 0);
  EXPECT_GT(counts[4], 0);
  EXPECT_EQ(counts[3], 0);
}

TEST(Sampler, SamplesOfOnePromptDiffer) {
  int differ = 0;
  for (int position = 0; position < 100; ++position)
    differ += static_cast<int>(Sampler({.seed = 1, .sample = 0}).choose(five, position) !=
                               Sampler({.seed = 1, .sample = 1}).choose(five, position));
  EXPECT_GT(differ, 20);
}

TEST(Sampler, LogProbabilities) {
  double sum = 0;
  for (const double logit : five) sum += std::exp(logit + 3 - (log_of_sum(five) + 3));
  EXPECT_NEAR(sum, 1, 1e-12);
  const std::array logits = {1.0, 2.0, 2.0};
  EXPECT_EQ(likeliest(logits, 2), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(likeliest(logits, 9).size(), 3U);
}

}  // namespace
}  // namespace trireme::infer
