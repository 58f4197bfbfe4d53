// Ramps of the batch: their words, and which steps are alike.
// SPDX-License-Identifier: Apache-2.0
#include "config/batch_ramp.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace trireme::config {
namespace {

TEST(BatchRamp, PartsAreAValueAndTokens) {
  EXPECT_EQ(parse_ramp_part("64 until 2000").until_tokens, 2000);
  EXPECT_EQ(parse_ramp_part("64 until 2000").value, 64);
  EXPECT_EQ(parse_ramp_part("8 until 1.5B").until_tokens, 1'500'000'000);
  EXPECT_EQ(parse_ramp_part("8 until 3k").until_tokens, 3000);
  EXPECT_EQ(parse_ramp_part("8 until 2T").until_tokens, 2'000'000'000'000);
  for (const char* wrong :
       {"", "64", "64 2000", "0 until 5", "-1 until 5", "x until 5", "8 until",
        "8 until 0", "8 until 1.5", "8 until 1e99", "8 until 5G", "8 until nan"}) {
    try {
      parse_ramp_part(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content);
    }
  }
}

TEST(BatchRamp, WithoutOneAllStepsAreAlike) {
  const auto stages = batch_stages(8, 16, {}, {});
  ASSERT_EQ(stages.size(), 1u);
  EXPECT_EQ(stage_at(stages, 1).global, 8);
  EXPECT_EQ(stage_at(stages, 1000).sequence_of(1000), 999 * 8);
}

// Step by step by the rule itself: the first part whose tokens are not reached.
TEST(BatchRamp, StepsFollowTheirTokens) {
  const std::vector<RampPart> ramp = {{2, 100}, {4, 101}, {6, 500}};
  const std::vector<RampPart> cuts = {{4, 90}, {8, 300}};
  constexpr std::int64_t S = 16;
  const auto stages = batch_stages(10, S, ramp, cuts);
  std::int64_t tokens = 0, sequences = 0;
  for (std::int64_t step = 1; step < 60; ++step) {
    std::int64_t global = 10, cut = S;
    for (auto part = ramp.rbegin(); part != ramp.rend(); ++part)
      if (tokens < part->until_tokens) global = part->value;
    for (auto part = cuts.rbegin(); part != cuts.rend(); ++part)
      if (tokens < part->until_tokens) cut = part->value;
    const BatchStage& stage = stage_at(stages, step);
    EXPECT_EQ(stage.global, global) << step;
    EXPECT_EQ(stage.sequence, cut) << step;
    EXPECT_EQ(stage.sequence_of(step), sequences) << step;
    EXPECT_EQ(stage.tokens_before + (step - stage.first_step) * stage.global * S, tokens);
    tokens += global * S;
    sequences += global;
  }
  EXPECT_EQ(stages.back().global, 10);
}

}  // namespace
}  // namespace trireme::config
