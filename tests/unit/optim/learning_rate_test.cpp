// Learning-rate schedules against their formulas.
// SPDX-License-Identifier: Apache-2.0
#include "optim/learning_rate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace trireme::optim {
namespace {

OptimizerConfig config(DecayStyle kind, std::int64_t warmup, std::int64_t decay) {
  OptimizerConfig c;
  c.learning_rate = 2.0;
  c.steps = 100;
  c.schedule = {kind, warmup, decay, 0.25};
  return c;
}

TEST(LearningRate, WarmsUpLinearly) {
  const auto c = config(DecayStyle::cosine, 10, 0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 1), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(c, 5), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 10), 2.0);
}

TEST(LearningRate, ConstantStays) {
  const auto c = config(DecayStyle::constant, 0, 0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 1), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 100), 2.0);
}

// Ten steps of 4 tokens, then steps of 12: the course is that of the tokens.
TEST(LearningRate, CountsTokensOfStepsThatGrow) {
  auto c = config(DecayStyle::linear, 20, 0);
  c.schedule.tokens = {{1, 0, 4}, {11, 40, 12}};
  c.steps = c.schedule.count(20);
  EXPECT_EQ(c.steps, 160);
  EXPECT_EQ(c.schedule.count(10), 40);
  EXPECT_EQ(c.schedule.count(11), 52);
  EXPECT_DOUBLE_EQ(learning_rate(c, 1), 2.0 * 4 / 20);
  EXPECT_DOUBLE_EQ(learning_rate(c, 5), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 15), 2.0 * (1.0 - 0.75 * (100.0 - 20) / 140));
  EXPECT_DOUBLE_EQ(learning_rate(c, 20), 0.5);
}

TEST(LearningRate, LinearFallsToTheFinalFraction) {
  const auto c = config(DecayStyle::linear, 20, 0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 60), 2.0 * (1.0 - 0.75 * 0.5));
  EXPECT_DOUBLE_EQ(learning_rate(c, 100), 0.5);
  const auto shorter = config(DecayStyle::linear, 20, 40);
  EXPECT_DOUBLE_EQ(learning_rate(shorter, 60), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(shorter, 90), 0.5);
}

TEST(LearningRate, CosineFollowsTheCosine) {
  const auto c = config(DecayStyle::cosine, 0, 0);
  for (const std::int64_t step : {1, 25, 50, 99, 100}) {
    const double t = static_cast<double>(step) / 100.0;
    const double factor = 0.25 + 0.75 * 0.5 * (1 + std::cos(std::numbers::pi * t));
    EXPECT_DOUBLE_EQ(learning_rate(c, step), 2.0 * factor);
  }
}

TEST(LearningRate, WsdIsStableThenDecays) {
  const auto c = config(DecayStyle::wsd, 10, 20);
  EXPECT_DOUBLE_EQ(learning_rate(c, 11), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 80), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 90), 2.0 * (1.0 - 0.75 * 0.5));
  EXPECT_DOUBLE_EQ(learning_rate(c, 100), 0.5);
}

}  // namespace
}  // namespace trireme::optim
