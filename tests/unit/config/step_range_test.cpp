// Ranges of steps: their written form.
// SPDX-License-Identifier: Apache-2.0
#include "config/step_range.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace trireme::config {
namespace {

TEST(StepRange, AreOneStepOrTwoEnds) {
  EXPECT_EQ(parse_step_range("7").first, 7);
  EXPECT_EQ(parse_step_range("7").last, 7);
  EXPECT_EQ(parse_step_range("1200-1210").last, 1210);
  for (const char* wrong : {"", "0", "-3", "3-", "3-2", "0-2", "3 - 4", "3-4-5", "x",
                            "1.5", "99999999999999999999"}) {
    try {
      parse_step_range(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content);
    }
  }
}

TEST(StepRange, BothEndsBelongToIt) {
  const std::vector<StepRange> ranges = {{3, 5}, {8, 8}};
  for (const std::int64_t step : {3, 4, 5, 8}) EXPECT_TRUE(holds(ranges, step)) << step;
  for (const std::int64_t step : {1, 2, 6, 7, 9}) EXPECT_FALSE(holds(ranges, step));
}

TEST(StepRange, CountsThoseBeforeAStepOnce) {
  const std::vector<StepRange> ranges = {{8, 8}, {3, 5}, {4, 6}};
  EXPECT_EQ(steps_before({}, 9), 0);
  EXPECT_EQ(steps_before(ranges, 3), 0);
  EXPECT_EQ(steps_before(ranges, 5), 2);
  EXPECT_EQ(steps_before(ranges, 7), 4);
  EXPECT_EQ(steps_before(ranges, 8), 4);
  EXPECT_EQ(steps_before(ranges, 100), 5);
}

}  // namespace
}  // namespace trireme::config
