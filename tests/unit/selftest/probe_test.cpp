// Comparisons of the self-test: the worst is kept, NaN is wrong, a fault is seen.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/probe.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "selftest/selftest.hpp"

namespace trireme::selftest {
namespace {

TEST(Probe, KeepsTheWorstShareOfABound) {
  Probe probe(Device::host(), false);
  probe.within({1.0, 2.0, 3.0}, {1.1, 2.0, 3.5}, {1.0, 1.0, 1.0});
  EXPECT_FALSE(probe.finding().wrong());
  EXPECT_DOUBLE_EQ(probe.finding().error, 0.5);
  probe.within({1.0}, {1.2}, {0.25});  // smaller, but nearer to its bound
  EXPECT_NEAR(probe.finding().error, 0.2, 1e-12);
  EXPECT_DOUBLE_EQ(probe.finding().bound, 0.25);
  probe.within({1.0}, {1.0}, {1e-9});
  EXPECT_FALSE(probe.finding().wrong());
  probe.within({1.0}, {1.3}, {0.25});
  EXPECT_TRUE(probe.finding().wrong());
  EXPECT_EQ(probe.finding().comparisons, 6);
}

TEST(Probe, ExactResultsHaveNoFreedom) {
  Probe probe(Device::host(), false);
  probe.equal(Vector{1.0, 2.0}, Vector{1.0, 2.0});
  EXPECT_FALSE(probe.finding().wrong());
  probe.equal(Vector{1.0}, Vector{std::nextafter(1.0, 2.0)});
  EXPECT_TRUE(probe.finding().wrong());
}

TEST(Probe, NotANumberAndAMissingElementAreWrong) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Probe first(Device::host(), false), second(first.device(), false),
      third(first.device(), false);
  first.close(DType::f32, {nan}, {1.0}, 1e30);
  EXPECT_TRUE(first.finding().wrong());
  second.relative({1.0, nan}, {1.0, 1.0}, 1e30);
  EXPECT_TRUE(second.finding().wrong());
  third.within({1.0}, {1.0, 2.0}, {9.0, 9.0});
  EXPECT_TRUE(third.finding().wrong());
}

TEST(Probe, BoundsAreOfTheStoredType) {
  Probe probe(Device::host(), false);
  probe.close(DType::bf16, {1.0 + 0x1p-8}, {1.0}, 0);
  EXPECT_FALSE(probe.finding().wrong());
  probe.close(DType::bf16, {1.0 + 0x1p-7}, {1.0}, 0);
  EXPECT_TRUE(probe.finding().wrong());
}

TEST(Fault, IsAPatternAndARank) {
  const auto fault = parse_fault("norms *@3");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->pattern, "norms *");
  EXPECT_EQ(fault->rank, 3);
  for (const char* wrong : {"norms", "@1", "norms@", "norms@-1", "norms@x", ""})
    EXPECT_FALSE(parse_fault(wrong)) << wrong;
}

TEST(Fault, PatternsAreTheShells) {
  EXPECT_TRUE(fits("norms bf16", "norms *"));
  EXPECT_TRUE(fits("norms bf16", "*"));
  EXPECT_FALSE(fits("norms bf16", "norms"));
}

}  // namespace
}  // namespace trireme::selftest
