// Who is said to have computed wrongly when two runs of a step differ.
// SPDX-License-Identifier: Apache-2.0
#include "train/rerun_check.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/own_gradients.hpp"

namespace trireme::train {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Ranks of which each has partners of its own; their own gradients were looked at.
std::vector<RerunReport> alone(int ranks) {
  std::vector<RerunReport> all;
  for (int r = 0; r < ranks; ++r) {
    all.push_back({{}, r, std::string(1, static_cast<char>('a' + r))});
    all.back().difference.compared_own = true;
  }
  return all;
}

bool says(const RerunVerdict& verdict, const char* words) {
  return verdict.text.find(words) != std::string::npos;
}

TEST(Reruns, NothingDiffers) { EXPECT_TRUE(judge_reruns(3, alone(2)).text.empty()); }

// All have the wrong sum, but one alone made it.
TEST(Reruns, TheRankWhoseOwnGradientDiffers) {
  auto ranks = alone(3);
  for (RerunReport& rank : ranks) rank.difference.sums = "lm_head.weight";
  ranks[1].difference.own = "model.norm.weight";
  const RerunVerdict verdict = judge_reruns(3, ranks);
  EXPECT_EQ(verdict.wrong, std::vector<int>{1});
  EXPECT_TRUE(says(verdict, "step 3, computed twice")) << verdict.text;
  EXPECT_TRUE(says(verdict, "the gradient of model.norm.weight")) << verdict.text;
  EXPECT_TRUE(says(verdict, "on rank 1 (host b): a fault of its memory")) << verdict.text;
  EXPECT_TRUE(says(verdict, "without its node")) << verdict.text;
}

// What one rank computes enters the activations of its tensor partner.
TEST(Reruns, PartnersAreNotToldApart) {
  auto ranks = alone(4);
  ranks[2].partners = ranks[3].partners;
  ranks[2].difference.own = ranks[3].difference.own = "lm_head.weight";
  RerunVerdict verdict = judge_reruns(3, ranks);
  EXPECT_TRUE(verdict.wrong.empty());
  EXPECT_TRUE(says(verdict, "ranks 2, 3 (hosts c, d): one of them")) << verdict.text;
  // ... but a rank without such a partner is certain beside them
  ranks[0].difference.loss = true;
  verdict = judge_reruns(3, ranks);
  EXPECT_EQ(verdict.wrong, std::vector<int>{0});
  EXPECT_TRUE(says(verdict, "the loss of its own")) << verdict.text;
}

TEST(Reruns, ASumAloneNamesNobody) {
  auto ranks = alone(2);
  ranks[1].difference.sums = "lm_head.weight";
  RerunVerdict verdict = judge_reruns(3, ranks);
  EXPECT_TRUE(verdict.wrong.empty());
  EXPECT_TRUE(says(verdict, "of the network")) << verdict.text;
  for (RerunReport& rank : ranks) rank.difference.compared_own = false;
  verdict = judge_reruns(3, ranks);
  EXPECT_TRUE(verdict.wrong.empty());
  EXPECT_TRUE(says(verdict, "health.rerun_every = 1")) << verdict.text;
}

TEST(Reruns, DifferencesOfTwoRuns) {
  const engine::StepPrint first{1.5, nan, {{"a", 1}, {"b", 2}}, {{"c", 3}}};
  engine::StepPrint second = first;
  EXPECT_FALSE(difference(first, second).any());
  second.squares = -nan;
  EXPECT_FALSE(difference(first, second).any());
  second.squares = 2;
  EXPECT_EQ(difference(first, second).sums, "all tensors");
  second.sums[0].bits = 4;
  second.own[1].bits = 4;
  second.loss = std::nextafter(1.5, 2.0);
  const engine::StepDifference all = difference(first, second);
  EXPECT_TRUE(all.loss);
  EXPECT_EQ(all.own, "b");
  EXPECT_EQ(all.sums, "c");
}

}  // namespace
}  // namespace trireme::train
