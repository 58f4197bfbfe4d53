// The loss of a pair of answers: known values, its derivative, extreme numbers.
// SPDX-License-Identifier: Apache-2.0
#include "nn/preferences.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme::nn {
namespace {

using Kind = PreferenceLoss::Kind;

TEST(PreferenceLoss, StartsAtLogTwoWhereTheModelIsTheReference) {
  const AnswerScore answer{-12.5, -12.5, 5};
  const PairLoss pair = pair_loss({Kind::sigmoid, 0.1, 0.2}, answer, answer);
  EXPECT_DOUBLE_EQ(pair.loss, std::log(2.0));
  EXPECT_DOUBLE_EQ(pair.gradient[0], -0.1 * (0.5 - 0.2));
  EXPECT_DOUBLE_EQ(pair.gradient[1], 0.1 * (0.5 - 0.2));
  EXPECT_EQ(pair_loss({Kind::hinge, 0.1, 0}, answer, answer).loss, 1.0);
  EXPECT_DOUBLE_EQ(pair_loss({Kind::ipo, 0.1, 0}, answer, answer).loss, 25.0);
}

// Central differences: relative errors of h^2 and eps / h.
TEST(PreferenceLoss, GradientIsTheDerivative) {
  const double h = 1e-5;
  for (const Kind kind : {Kind::sigmoid, Kind::robust, Kind::hinge, Kind::ipo})
    for (const double smoothing : {0.0, 0.15}) {
      const PreferenceLoss rule{kind, 0.4, smoothing};
      const AnswerScore preferred{-10.0, -11.5, 7}, other{-8.0, -9.0, 3};
      const auto loss = [&](double a, double b) {
        AnswerScore first = preferred, second = other;
        first.log_probability += a;
        second.log_probability += b;
        return pair_loss(rule, first, second).loss;
      };
      const PairLoss pair = pair_loss(rule, preferred, other);
      EXPECT_NEAR((loss(h, 0) - loss(-h, 0)) / (2 * h), pair.gradient[0], 1e-9);
      EXPECT_NEAR((loss(0, h) - loss(0, -h)) / (2 * h), pair.gradient[1], 1e-9);
      EXPECT_NEAR(pair.rewards[0], 0.4 * 1.5, 1e-15);
      EXPECT_NEAR(pair.rewards[1], 0.4 * 1.0, 1e-15);
    }
}

TEST(PreferenceLoss, IsFiniteHoweverFarApartAnswersAre) {
  const AnswerScore near{-1, -1, 1}, far{-1e6, -1, 1};
  for (const Kind kind : {Kind::sigmoid, Kind::robust, Kind::hinge}) {
    const PairLoss right = pair_loss({kind, 1.0, 0}, near, far);
    EXPECT_EQ(right.loss, 0.0);
    EXPECT_EQ(right.gradient[0], 0.0);
    const PairLoss wrong = pair_loss({kind, 1.0, 0}, far, near);
    EXPECT_NEAR(wrong.loss, 1e6, 2);
    EXPECT_EQ(wrong.gradient[0], -1.0);
  }
}

TEST(PreferenceSums, CountEachPairByItsShare) {
  PreferenceSums sums;
  const AnswerScore better{-2, -3, 1}, worse{-5, -4, 1};
  sums.add(pair_loss({Kind::sigmoid, 0.5, 0}, better, worse), better, worse, 0.5);
  sums.add(pair_loss({Kind::sigmoid, 0.5, 0}, worse, better), worse, better, 0.5);
  EXPECT_DOUBLE_EQ(sums.values[PreferenceSums::preferred], 0.5 * (0.5 - 0.5));
  EXPECT_DOUBLE_EQ(sums.values[PreferenceSums::right], 0.5);
  EXPECT_DOUBLE_EQ(sums.values[PreferenceSums::preferred_log], 0.5 * (-2 - 5));
}

TEST(MostAnswers, HoldsTheShortestPairs) {
  EXPECT_EQ(most_answers(1, 1), 2);
  EXPECT_EQ(most_answers(1, 7), 4);  // two pairs of four tokens
  EXPECT_EQ(most_answers(3, 15), 24);
}

}  // namespace
}  // namespace trireme::nn
