// Text samples: the draw of a token, which parts of the vocabulary may make apart.
// SPDX-License-Identifier: Apache-2.0
#include "train/text_samples.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme::train {
namespace {

using Best = TextSamples::Best;

TEST(TextSamples, GreedyIsTheLargestLogitTheFirstOfEquals) {
  const std::vector<double> logits = {0.5, 2.0, -1.0, 2.0};
  const Best best = TextSamples::choose(logits, 10, 0, 1, 2, 3, 4);
  EXPECT_EQ(best.token, 11);
  EXPECT_EQ(best.value, 2.0);
}

TEST(TextSamples, PartsOfTheVocabularyAgreeOnTheDrawOfTheWhole) {
  std::vector<double> logits;
  for (int i = 0; i < 101; ++i) logits.push_back(std::sin(i));
  for (std::int64_t position = 1; position < 50; ++position) {
    const Best whole = TextSamples::choose(logits, 0, 0.7, 5, 20, 1, position);
    const std::span<const double> all(logits);
    const Best low = TextSamples::choose(all.first(34), 0, 0.7, 5, 20, 1, position);
    const Best high = TextSamples::choose(all.subspan(34), 34, 0.7, 5, 20, 1, position);
    EXPECT_EQ(whole.token, low.value >= high.value ? low.token : high.token);
  }
}

// Of n draws a token of probability p comes n p times, within 5 standard deviations.
TEST(TextSamples, DrawsFollowTheSoftmax) {
  const std::vector<double> p = {0.5, 0.3, 0.15, 0.05};
  std::vector<double> logits, seen(p.size());
  constexpr double temperature = 1.6;
  for (const double share : p) logits.push_back(temperature * std::log(share));
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i)
    ++seen[static_cast<std::size_t>(
        TextSamples::choose(logits, 0, temperature, 9, i / 100, i % 4, i % 100).token)];
  for (std::size_t t = 0; t < p.size(); ++t)
    EXPECT_NEAR(seen[t], draws * p[t], 5 * std::sqrt(draws * p[t] * (1 - p[t]))) << t;
}

}  // namespace
}  // namespace trireme::train
