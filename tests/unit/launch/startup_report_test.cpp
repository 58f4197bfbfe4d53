// The table of ranks, its warnings, and the cores behind it.
// SPDX-License-Identifier: Apache-2.0
#include "launch/startup_report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/cpu_place.hpp"
#include "launch/distinct_texts.hpp"

namespace trireme::launch {
namespace {

using Cores = std::vector<int>;

RankPlace rank(const std::string& host, const Cores& cores, int threads = 1) {
  return {host, "CPU", -1, cores, {0}, threads};
}

TEST(Ranges, AreWrittenAndRead) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(ranges_text({5}), "5");
  EXPECT_EQ(parse_ranges("0-3,8\n"), (Cores{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_ranges("node12"), Cores{12});
  EXPECT_TRUE(parse_ranges("").empty());
}

TEST(CpuPlace, IsOfThisProcess) {
  const CpuPlace place = cpu_place(allowed_cores());
  ASSERT_FALSE(place.cores.empty());
  EXPECT_TRUE(std::is_sorted(place.cores.begin(), place.cores.end()));
  EXPECT_NE(describe_node().find("logical cores"), std::string::npos);
  EXPECT_EQ(numa_node_of("no:such.device"), -1);
}

TEST(Table, OneRowARank) {
  const std::vector<RankPlace> ranks = {rank("a", {0, 1}, 2), rank("b", {2, 3}, 2)};
  EXPECT_EQ(placement_table(ranks),
            "  rank  host  device  cores  NUMA  threads\n"
            "  0     a     CPU     0-1    0           2\n"
            "  1     b     CPU     2-3    0           2\n");
}

TEST(Table, OneRowForHostsThatLookAlike) {
  std::vector<RankPlace> ranks;
  for (int host = 0; host < 1000; ++host)
    for (int core = 0; core < 4; ++core)
      ranks.push_back(rank("n" + std::to_string(host), {core}, host == 7 ? 2 : 1));
  EXPECT_EQ(placement_table(ranks),
            "  rank     host                device   cores  NUMA  threads\n"
            "  0-27     n0 and 6 like it    4 x CPU  0-3    0           1\n"
            "  28-31    n7                  4 x CPU  0-3    0           2\n"
            "  32-3999  n8 and 991 like it  4 x CPU  0-3    0           1\n");
}

TEST(Warnings, NoneWhereEveryThreadHasACore) {
  EXPECT_TRUE(placement_warnings(std::vector<RankPlace>{rank("a", {0, 1}, 2),
                                                        rank("a", {2, 3}, 2),
                                                        rank("b", {0, 1}, 2)})
                  .empty());
  // Bound to nothing, but cores enough.
  EXPECT_TRUE(placement_warnings(std::vector<RankPlace>{rank("a", {0, 1, 2, 3}, 2),
                                                        rank("a", {0, 1, 2, 3}, 2)})
                  .empty());
}

std::string only_warning(const std::vector<RankPlace>& ranks) {
  const auto lines = placement_warnings(ranks);
  EXPECT_EQ(lines.size(), 1u);
  return lines.empty() ? "" : lines.front();
}

TEST(Warnings, TooFewCores) {
  EXPECT_TRUE(
      only_warning({rank("a", {0, 1}, 4)})
          .starts_with("host a: 1 rank with 4 threads on 2 logical cores (0-1):"));
  // Three ranks bound to one core, beside a free one.
  EXPECT_TRUE(
      only_warning({rank("a", {0}), rank("a", {0}), rank("a", {0}), rank("a", {1, 2, 3})})
          .starts_with("host a: 3 ranks with 3 threads on 1 logical core (0):"));
  // Masks that overlap in part.
  EXPECT_TRUE(
      only_warning({rank("a", {0, 1}, 2), rank("a", {1, 2}, 2)})
          .starts_with("host a: 2 ranks with 4 threads on 3 logical cores (0-2)"));
}

TEST(Warnings, CoresFarFromTheGpu) {
  RankPlace place = rank("a", {0, 1});
  place.device = "0000:3b:00.0 GPU";
  place.device_numa = 1;
  EXPECT_NE(only_warning({place}).find("is at NUMA node 1"), std::string::npos);
  place.numa_nodes = {0, 1};
  EXPECT_TRUE(placement_warnings(std::vector<RankPlace>{place}).empty());
}

TEST(Warnings, AreFewOnManyHosts) {
  std::vector<RankPlace> ranks;
  for (int host = 0; host < 100; ++host)
    ranks.push_back(rank("n" + std::to_string(host), {0}, 2));
  const auto lines = placement_warnings(ranks);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines.back(), "and 96 more of this kind");
}

TEST(DistinctTexts, KeepsEachTextOnce) {
  DistinctTexts all("a");
  all.add("b");
  DistinctTexts next("b");
  next.add("c\tc");
  next.add("a");
  all.append(next);
  all = DistinctTexts::from_text(all.text());
  ASSERT_EQ(all.size(), 5);
  EXPECT_EQ(all.distinct(), 3u);
  std::string texts;
  for (int rank = 0; rank < all.size(); ++rank) texts += all.at(rank) + " ";
  EXPECT_EQ(texts, "a b b c\tc a ");
  EXPECT_EQ(DistinctTexts::from_text(DistinctTexts().text()).size(), 0);
}

TEST(DistinctTexts, OtherTextsAreRefused) {
  DistinctTexts texts("a");
  texts.add("bc");
  const std::string text = texts.text();
  for (std::size_t end = 0; end < text.size(); ++end)
    EXPECT_THROW(DistinctTexts::from_text(text.substr(0, end)), Error) << end;
  std::string other = text;
  other[4 * 4] = 2;  // of rank 0: an index beyond the texts
  EXPECT_THROW(DistinctTexts::from_text(other), Error);
}

}  // namespace
}  // namespace trireme::launch
