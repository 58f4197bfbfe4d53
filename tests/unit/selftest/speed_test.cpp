// Who is slow, by rates that are made up; pairs of hosts; memory that is spoiled.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/philox.hpp"
#include "selftest/memory_patterns.hpp"
#include "selftest/pairs.hpp"
#include "selftest/rate_verdict.hpp"
#include "support/device.hpp"

namespace trireme::selftest {
namespace {

using Names = std::vector<std::string>;
using Kinds = std::vector<std::uint8_t>;

std::vector<int> slow_ranks(const RateVerdict& verdict) {
  std::vector<int> ranks;
  for (const SlowRank& one : verdict.slow) ranks.push_back(one.rank);
  return ranks;
}

// As rates are: within 8 per cent of each other.
std::vector<double> usual_rates(int ranks, double rate, std::uint64_t seed) {
  const Random random(seed, hash_name("rates"));
  std::vector<double> rates;
  for (int r = 0; r < ranks; ++r)
    rates.push_back(rate * (0.92 + 0.08 * random.uniform(static_cast<std::uint64_t>(r))));
  return rates;
}

TEST(Judge, NamesNobodyAmongUsualRates) {
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    for (const int ranks : {1, 2, 3, 64, 1000}) {
      const auto rates = usual_rates(ranks, 1e12, seed);
      EXPECT_TRUE(judge(rates, Kinds(rates.size()), 0.8).slow.empty());
    }
}

TEST(Judge, NamesTheSlowRankAndNoOther) {
  for (const int ranks : {2, 3, 4, 64, 1000})
    for (const int slow : {0, 1, ranks - 1}) {
      auto rates = usual_rates(ranks, 1e12, 1);
      rates[static_cast<std::size_t>(slow)] *= 0.7;
      const RateVerdict verdict = judge(rates, Kinds(rates.size()), 0.8);
      EXPECT_EQ(slow_ranks(verdict), std::vector<int>{slow}) << ranks << " ranks";
      ASSERT_EQ(verdict.kinds.size(), 1U);
      EXPECT_EQ(verdict.kinds[0].slowest_rank, slow);
      EXPECT_NEAR(verdict.slow[0].share, 0.7, 0.07);
    }
}

TEST(Judge, ComparesRanksOfOneKind) {
  std::vector<double> rates = {10, 10, 10, 1, 1, 1};
  const Kinds kinds = {0, 0, 0, 2, 2, 2};  // nobody is of kind 1
  EXPECT_TRUE(judge(rates, kinds, 0.8).slow.empty());
  rates = {10, 5, 10, 1, 1, 0.5};
  const RateVerdict verdict = judge(rates, kinds, 0.8);
  EXPECT_EQ(slow_ranks(verdict), (std::vector<int>{1, 5}));
  ASSERT_EQ(verdict.kinds.size(), 2U);
  EXPECT_EQ(verdict.kinds[1].kind, 2);
  EXPECT_EQ(verdict.kinds[1].ranks, 3);
  EXPECT_EQ(verdict.kinds[1].median, 1);
  EXPECT_EQ(verdict.kinds[1].slowest, 0.5);
  EXPECT_EQ(verdict.kinds[0].fastest, 10);
}

TEST(Judge, LeavesOutRanksWithoutARate) {
  const std::vector<double> rates = {-1, 4, -1, 4, 1}, none = {-1, -1};
  const RateVerdict verdict = judge(rates, Kinds(5), 0.5);
  EXPECT_EQ(slow_ranks(verdict), std::vector<int>{4});
  EXPECT_EQ(verdict.kinds[0].ranks, 3);
  EXPECT_TRUE(judge(none, Kinds(2), 0.5).kinds.empty());
}

TEST(Judge, ALimitOfZeroNamesNobody) {
  const double none = std::numeric_limits<double>::infinity();  // no time went by
  for (const std::vector<double>& rates : {std::vector<double>{0, 1, 1}, {1, none, none}})
    EXPECT_TRUE(judge(rates, Kinds(3), 0).slow.empty());
}

class NamedHostsTest : public testing::Test {
 protected:
  NamedHostsTest() {
    for (const char* host : {"n1", "n1", "n2", "n2", "gpu7", "gpu7"}) hosts_.add(host);
  }
  comm::HostTable hosts_;
  NamedHosts named_{hosts_};
};

TEST_F(NamedHostsTest, AHostHasALineWithItsSlowestRanks) {
  named_.add_slow("products", {{2, 0.7}, {3, 0.5}});
  named_.add_slow("memory", {{2, 0.6}, {4, 0.3}});
  named_.add_slow("messages", {});
  EXPECT_EQ(named_.lines(9),
            (Names{"host gpu7: memory 0.30 of the median (rank 4)",
                   "host n2: products 0.50 of the median (rank 3), memory 0.60 "
                   "of the median (rank 2)"}));
  EXPECT_EQ(named_.names(9), (Names{"gpu7", "n2"}));
  EXPECT_EQ(named_.exclude_list(), "gpu7\nn2\n");
}

TEST_F(NamedHostsTest, WrongMemoryComesFirst) {
  named_.add_slow("products", {{5, 0.01}});
  named_.add_wrong(1);
  EXPECT_EQ(named_.lines(1),
            (Names{"host n1: wrong bytes in memory (rank 1)", "and 1 host more"}));
  EXPECT_EQ(named_.names(1), (Names{"n1", "1 more"}));
  EXPECT_EQ(named_.exclude_list(), "gpu7\nn1\n");
}

TEST_F(NamedHostsTest, NobodyIsNamed) {
  EXPECT_TRUE(named_.empty());
  EXPECT_EQ(named_.exclude_list(), "");
}

TEST(Pairs, AreDisjointAndMutual) {
  for (int places = 1; places <= 70; ++places)
    for (int round = 0; round < pair_rounds(places); ++round)
      for (int place = 0; place < places; ++place) {
        const int partner = partner_of(place, places, round);
        if (partner < 0) continue;
        ASSERT_NE(partner, place);
        ASSERT_LT(partner, places);
        ASSERT_EQ(partner_of(partner, places, round), place)
            << places << " places, round " << round;
      }
}

TEST(Pairs, AreFew) {
  EXPECT_EQ(pair_rounds(1), 0);
  EXPECT_EQ(pair_rounds(2), 2);
  EXPECT_EQ(pair_rounds(64), 12);
  EXPECT_EQ(pair_rounds(10000), 28);
}

// Of the best of all rounds, where every message of one place is slow.
TEST(Pairs, TellASlowPlaceFromItsPartners) {
  for (int places = 3; places <= 40; ++places)
    for (int slow = 0; slow < places; ++slow) {
      std::vector<double> best(static_cast<std::size_t>(places), -1);
      for (int round = 0; round < pair_rounds(places); ++round)
        for (int place = 0; place < places; ++place) {
          const int partner = partner_of(place, places, round);
          if (partner < 0) continue;
          double& mine = best[static_cast<std::size_t>(place)];
          mine = std::max(mine, place == slow || partner == slow ? 0.2 : 1.0);
        }
      ASSERT_EQ(slow_ranks(judge(best, Kinds(best.size()), 0.5)), std::vector<int>{slow})
          << places << " places";
    }
}

TEST(MemoryPatterns, SoundMemoryPasses) {
  for (const std::int64_t bytes : {1, 12345, 9 << 20}) {
    const MemoryTest test = test_memory(test::test_device(), bytes, 0, false);
    EXPECT_FALSE(test.wrong) << bytes;
    EXPECT_GT(test.rate, 0);
  }
}

TEST(MemoryPatterns, AByteThatDiffersIsFoundWhereItIs) {
  for (const std::int64_t bytes : {1, 12345, 9 << 20}) {
    const MemoryTest test = test_memory(test::test_device(), bytes, 0, true);
    ASSERT_TRUE(test.wrong) << bytes;
    EXPECT_EQ(test.wrong->offset, bytes / 2);
    EXPECT_EQ(test.wrong->found ^ test.wrong->wanted, 1);
    EXPECT_EQ(test.wrong->pattern, "numbers");
  }
}

}  // namespace
}  // namespace trireme::selftest
