// Slow hosts: which rank is slowest, and how long until its host is named.
// SPDX-License-Identifier: Apache-2.0
#include "train/slow_hosts.hpp"

#include <gtest/gtest.h>

#include "comm/mesh.hpp"

namespace trireme::train {
namespace {

class SlowHostsTest : public testing::Test {
 protected:
  comm::Mesh mesh_ = comm::Mesh::meta({}, 0);
  engine::StepTotals totals_{mesh_, Device::host()};
  comm::HostTable hosts_;
  SlowHosts slow_{hosts_, totals_};

  // Steps in which the host is slowest, until it is named or they are over.
  std::optional<double> steps(int count, const std::string& host, double factor) {
    std::optional<double> named;
    for (int i = 0; i < count && !named; ++i) named = slow_.add(host, factor);
    return named;
  }
};

TEST_F(SlowHostsTest, IsNamedOnceAfterTwentySteps) {
  EXPECT_FALSE(steps(19, "b", 1.5));
  const auto factor = slow_.add("b", 2.5);
  ASSERT_TRUE(factor);
  EXPECT_DOUBLE_EQ(*factor, (19 * 1.5 + 2.5) / 20);
  EXPECT_FALSE(steps(100, "b", 1.5));
  EXPECT_TRUE(steps(20, "a", 1.2));
}

TEST_F(SlowHostsTest, AStepInBetweenStartsTheCountAnew) {
  EXPECT_FALSE(steps(19, "b", 1.5));
  EXPECT_FALSE(steps(1, "b", 1.15));  // no more than the share
  EXPECT_FALSE(steps(19, "b", 1.5));
  EXPECT_FALSE(steps(1, "a", 1.5));
  EXPECT_FALSE(steps(19, "b", 1.5));
  EXPECT_TRUE(steps(1, "b", 1.5));
}

TEST_F(SlowHostsTest, EvenHostsAreNeverNamed) { EXPECT_FALSE(steps(1000, "a", 1.1)); }

TEST(RankedValue, KeepsOrderRankAndValue) {
  using engine::from_order;
  using engine::in_order;
  for (const double value : {1e-9, 0.5, 1.0, 1.3, 7e5})
    for (const int rank : {0, 1, 99999, (1 << 24) - 1}) {
      const auto back = from_order(in_order({value, rank}));
      ASSERT_TRUE(back);
      EXPECT_EQ(back->rank, rank);
      EXPECT_NEAR(back->value / value, 1.0, 4e-9);
      EXPECT_GT(in_order({1.0001 * value, 0}), in_order({value, rank}));
    }
  EXPECT_FALSE(from_order(0.0));
}

}  // namespace
}  // namespace trireme::train
