// Slow hosts: which ranks are slowest, and how long until their hosts are named.
// SPDX-License-Identifier: Apache-2.0
#include "train/slow_hosts.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "base/log.hpp"
#include "comm/mesh.hpp"

namespace trireme::train {
namespace {

class SlowHostsTest : public testing::Test {
 protected:
  comm::Mesh mesh_ = comm::Mesh::meta({}, 0);
  engine::StepTotals totals_{mesh_, Device::host()};
  comm::HostTable hosts_;
  SlowHosts slow_{hosts_, totals_};

  static bool never(int) { return false; }
  // A step of these hosts and factors; of each that is named, "host factor".
  std::vector<std::string> step(const std::vector<std::pair<std::string, double>>& hosts,
                                const std::function<bool(int)>& hidden = never) {
    std::vector<SlowHosts::Slow> slowest;
    for (const auto& [host, factor] : hosts)
      slowest.push_back({host, {factor, host.front() - 'a'}});
    std::vector<std::string> named;
    for (const auto& slow : slow_.add(slowest, hidden))
      named.push_back(slow.host + " " + fixed(slow.rank.value, 3));
    return named;
  }
  // Steps in which the host is slowest, until it is named or they are over.
  bool steps(int count, const std::string& host, double factor) {
    bool named = false;
    for (int i = 0; i < count && !named; ++i) named = !step({{host, factor}}).empty();
    return named;
  }
};

using Names = std::vector<std::string>;

TEST_F(SlowHostsTest, IsNamedOnceAfterTwentySteps) {
  EXPECT_FALSE(steps(19, "b", 1.5));
  EXPECT_EQ(step({{"b", 2.5}}), (Names{"b 1.550"}));
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

TEST_F(SlowHostsTest, SeveralAreNamedOneBesideTheOther) {
  for (int i = 0; i < 19; ++i)
    EXPECT_EQ(step({{"b", 1.8}, {"a", 1.5}, {"c", 1.1}}), Names());
  EXPECT_EQ(step({{"a", 1.9}, {"b", 1.8}, {"c", 1.2}}), (Names{"a 1.520", "b 1.800"}));
  EXPECT_EQ(step({{"c", 1.2}}), Names());
}

TEST_F(SlowHostsTest, AStepInWhichItIsHiddenDoesNotCount) {
  const auto behind_a = [](int rank) { return rank == 1; };  // of host b
  EXPECT_FALSE(steps(10, "b", 1.5));
  EXPECT_EQ(step({{"a", 1.8}}, behind_a), Names());
  EXPECT_FALSE(steps(9, "b", 1.5));
  EXPECT_TRUE(steps(1, "b", 1.5));
}

// Of 1,000 hosts, more than there are slots: no two share one in many steps.
TEST(StepTotals, HostsThatShareASlotChangeFromStepToStep) {
  comm::Mesh mesh = comm::Mesh::meta({}, 0);
  engine::StepTotals totals(mesh, Device::host());
  totals.tell_apart(0, engine::StepTotals::host_slots);
  EXPECT_FALSE(totals.share_a_slot(3, 4));
  totals.tell_apart(0, 1000);
  int together = 0;
  for (int step = 0; step < 1000; ++step) {
    totals.finish({}, {});
    together += totals.share_a_slot(3, 700) ? 1 : 0;
  }
  EXPECT_GT(together, 3);
  EXPECT_LT(together, 40);
}

TEST(RankedValue, KeepsOrderRankAndValue) {
  using engine::from_ordered_double;
  using engine::to_ordered_double;
  for (const double value : {1e-9, 0.5, 1.0, 1.3, 7e5})
    for (const int rank : {0, 1, 99999, (1 << 24) - 1}) {
      const auto back = from_ordered_double(to_ordered_double({value, rank}));
      ASSERT_TRUE(back);
      EXPECT_EQ(back->rank, rank);
      EXPECT_NEAR(back->value / value, 1.0, 4e-9);
      EXPECT_GT(to_ordered_double({1.0001 * value, 0}), to_ordered_double({value, rank}));
    }
  EXPECT_FALSE(from_ordered_double(0.0));
}

}  // namespace
}  // namespace trireme::train
