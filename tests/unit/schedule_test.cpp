// Schedules are data: their order and their live microbatches.
// SPDX-License-Identifier: Apache-2.0
#include "train/schedule.hpp"

#include <gtest/gtest.h>

namespace trireme::train {
namespace {

TEST(Schedule, OneStageRunsEachMicrobatchForwardThenBackward) {
  const Schedule expected = {{ActionKind::forward, 0},
                             {ActionKind::backward, 0},
                             {ActionKind::forward, 1},
                             {ActionKind::backward, 1}};
  EXPECT_EQ(one_stage_schedule(2), expected);
}

TEST(Schedule, OneStageKeepsOneMicrobatchAlive) {
  EXPECT_EQ(live_microbatches(one_stage_schedule(7)), 1);
  const Schedule two = {{ActionKind::forward, 0},
                        {ActionKind::forward, 1},
                        {ActionKind::backward, 0},
                        {ActionKind::backward, 1}};
  EXPECT_EQ(live_microbatches(two), 2);
}

}  // namespace
}  // namespace trireme::train
