// LossScaler: growth, halving, floor, and its state.
// SPDX-License-Identifier: Apache-2.0
#include "optim/loss_scaler.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme::optim {
namespace {

TEST(LossScaler, DoublesAfterAnIntervalAndHalvesAtOnce) {
  LossScaler scaler({.initial_scale = 8, .growth_interval = 3, .floor = 2});
  for (int step = 0; step < 2; ++step) scaler.succeeded();
  EXPECT_EQ(scaler.scale(), 8);
  scaler.succeeded();
  EXPECT_EQ(scaler.scale(), 16);
  scaler.succeeded();
  scaler.succeeded();
  EXPECT_TRUE(scaler.overflowed());  // and the count begins anew
  EXPECT_EQ(scaler.scale(), 8);
  scaler.succeeded();
  EXPECT_EQ(scaler.scale(), 8);
  EXPECT_EQ(scaler.skipped(), 1);
}

TEST(LossScaler, StopsAtTheFloor) {
  LossScaler scaler({.initial_scale = 8, .growth_interval = 3, .floor = 3});
  EXPECT_TRUE(scaler.overflowed());
  EXPECT_TRUE(scaler.overflowed());
  EXPECT_EQ(scaler.scale(), 3);
  EXPECT_FALSE(scaler.overflowed());
  EXPECT_EQ(scaler.scale(), 3);
  EXPECT_EQ(scaler.skipped(), 2);
}

TEST(LossScaler, ItsStateIsAllOfIt) {
  LossScaler a({.initial_scale = 8, .growth_interval = 3}),
      b({.initial_scale = 1, .growth_interval = 3});
  a.succeeded();
  a.succeeded();
  const auto from = a.state().span<float>(), to = b.state().span<float>();
  std::copy(from.begin(), from.end(), to.begin());
  b.succeeded();
  EXPECT_EQ(b.scale(), 16);
}

}  // namespace
}  // namespace trireme::optim
