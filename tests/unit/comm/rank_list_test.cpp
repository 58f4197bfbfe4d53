// Lists of ranks and tables of hosts that are held as arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_list.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "comm/collective.hpp"
#include "comm/host_table.hpp"

namespace trireme::comm {
namespace {

TEST(RankList, FindsEachMemberAndNoOther) {
  const RankList lists[] = {RankList::line(5, 1),
                            RankList::line(3, 4, 6),
                            {2, 4, 8, 8, 1},  // tensor slowest, as the group `spread`
                            {1, 3, 2, 5, 12}};
  for (const RankList& list : lists) {
    std::vector<int> all;
    for (int i = 0; i < list.size(); ++i) {
      all.push_back(list.rank(i));
      EXPECT_EQ(list.index_of(list.rank(i)), i);
    }
    int found = 0;
    for (int rank = 0; rank < 100; ++rank) found += list.contains(rank) ? 1 : 0;
    EXPECT_EQ(found, list.size());
    EXPECT_EQ(RankList::from_ranks(all), list.normal());
    EXPECT_EQ(rank_list_from(text_of(list)), list);
  }
  EXPECT_ANY_THROW(RankList::from_ranks(std::vector{1, 2, 4}));
  EXPECT_ANY_THROW(rank_list_from("1,2,3,4"));
}

TEST(HostTable, HoldsNumberedHostsAsOneRun) {
  HostTable table;
  for (int host = 0; host < 1250; ++host)
    for (int rank = 0; rank < 8; ++rank)
      table.add("node" + std::to_string(10000 + host).substr(1));
  EXPECT_LE(table.runs(), 2u);
  EXPECT_EQ(table.hosts(), 1250);
  EXPECT_EQ(table.host(0), "node0000");
  EXPECT_EQ(table.host(9999), "node1249");
  EXPECT_EQ(table.host(10000), "unknown");
  EXPECT_EQ(HostTable::from_text(table.text()).host(4321), "node0540");
  EXPECT_EQ(table.number_of(0), 0);
  EXPECT_EQ(table.number_of(4321), 540);
  EXPECT_EQ(table.number_of(-1), -1);
}

TEST(HostTable, HoldsNumberedLabelsAsOneRun) {
  HostTable table;
  for (int host = 8; host < 120; ++host)
    for (int rank = 0; rank < 4; ++rank)
      table.add("node" + std::to_string(1000 + host).substr(1) + ".cluster.example");
  EXPECT_LE(table.runs(), 2u);
  const HostTable again = HostTable::from_text(table.text());
  EXPECT_EQ(again.host(0), "node008.cluster.example");
  EXPECT_EQ(again.host(447), "node119.cluster.example");
  HostTable addresses;
  for (int host = 7; host < 30; ++host) addresses.add("10.0.0." + std::to_string(host));
  EXPECT_LE(addresses.runs(), 3u);  // of one digit, and of two
  EXPECT_EQ(addresses.host(22), "10.0.0.29");
}

TEST(HostTable, HoldsAnyNames) {
  const std::vector<std::string> names = {
      "a1", "a1", "a2",  "a2",  "a2",   "b",    "a3",   "a3",    "a4",     "a9",
      "b",  "b",  "x08", "x09", "x1.a", "x2.b", "x3.b", "login", "login.a"};
  HostTable table;
  for (const auto& name : names) table.add(name);
  const HostTable again = HostTable::from_text(table.text());
  for (std::size_t rank = 0; rank < names.size(); ++rank)
    EXPECT_EQ(again.host(static_cast<int>(rank)), names[rank]) << rank;
}

// Subtrees are contiguous and cover the ranks; nobody has more than log2 children.
TEST(Tree, SubtreesAreRowsInRankOrder) {
  for (const int size : {1, 2, 3, 5, 8, 13, 64, 100}) {
    int below_root = 1;
    for (int rank = 1; rank < size; ++rank) {
      const BinomialNode place = binomial_node(rank, 0, size);
      if (place.parent == 0) below_root += subtree_size(place, size);
      const BinomialNode parent = binomial_node(place.parent, 0, size);
      EXPECT_LE(rank + subtree_size(place, size),
                parent.relative_rank + subtree_size(parent, size));
    }
    EXPECT_EQ(below_root, size);
  }
}

}  // namespace
}  // namespace trireme::comm
