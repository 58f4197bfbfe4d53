// The tree of the world's gathers, for hosts of any numbers of ranks.
// SPDX-License-Identifier: Apache-2.0
#include "comm/gather_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

namespace trireme::comm {
namespace {

HostTable table_of(const std::vector<int>& ranks) {
  HostTable table;
  for (std::size_t host = 0; host < ranks.size(); ++host)
    for (int i = 0; i < ranks[host]; ++i) table.add("node" + std::to_string(100 + host));
  return table;
}

int steps_to_root(const std::vector<GatherTree>& trees, int rank) {
  int steps = 0;
  for (; trees[static_cast<std::size_t>(rank)].parent >= 0; ++steps)
    rank = trees[static_cast<std::size_t>(rank)].parent;
  return steps;
}

// Every rank is its parent's child, and rows of children follow each other.
void check(const std::vector<GatherTree>& trees, int root) {
  const int size = static_cast<int>(trees.size());
  int parents = 0;
  for (int rank = 0; rank < size; ++rank) {
    const GatherTree& tree = trees[static_cast<std::size_t>(rank)];
    int ranks = 1;
    for (const GatherTree::Child& child : tree.children) {
      const GatherTree& other = trees[static_cast<std::size_t>(child.rank)];
      EXPECT_EQ(other.parent, rank);
      EXPECT_EQ(other.ranks, child.ranks);
      EXPECT_EQ(child.first, ranks);
      EXPECT_EQ(child.rank, (rank + child.first) % size);
      ranks += child.ranks;
      ++parents;
    }
    EXPECT_EQ(tree.ranks, ranks);
    EXPECT_EQ(tree.parent < 0, rank == root);
  }
  EXPECT_EQ(parents, size - 1);
}

TEST(GatherTree, ABinomialTreeToAnyRank) {
  for (const int size : {1, 2, 3, 5, 8, 13, 64, 100})
    for (const int root : {0, size / 3, size - 1}) {
      std::vector<GatherTree> trees;
      for (int rank = 0; rank < size; ++rank)
        trees.push_back(binomial_tree(rank, root, size));
      check(trees, root);
    }
}

TEST(GatherTree, HostsGatherFirst) {
  const std::vector<std::vector<int>> jobs = {
      {1},          {6},       {1, 1, 1},    {6, 6, 6, 6, 6},         {8, 8, 8, 8},
      {3, 1, 7, 2}, {5, 5, 4}, {1, 9, 1, 9}, std::vector<int>(100, 6)};
  for (const auto& ranks : jobs) {
    const HostTable hosts = table_of(ranks);
    std::vector<GatherTree> trees;
    int size = 0, most = 0;
    for (const int n : ranks) size += n, most = std::max(most, n);
    for (int rank = 0; rank < size; ++rank) trees.push_back(host_tree(rank, hosts, size));
    check(trees, 0);
    const auto log2 = [](std::size_t n) {
      return static_cast<int>(std::bit_width(n - 1));
    };
    int between = 0;
    for (int rank = 0; rank < size; ++rank) {
      const int parent = trees[static_cast<std::size_t>(rank)].parent;
      if (parent >= 0) between += hosts.number_of(parent) != hosts.number_of(rank);
      EXPECT_LE(steps_to_root(trees, rank),
                log2(ranks.size()) + log2(static_cast<std::size_t>(most)));
    }
    EXPECT_EQ(between, hosts.hosts() - 1);
  }
}

TEST(GatherTree, PowersOfTwoMakeTheBinomialTree) {
  const HostTable hosts = table_of(std::vector<int>(16, 8));
  for (int rank = 0; rank < 128; ++rank) {
    const GatherTree by_host = host_tree(rank, hosts, 128);
    EXPECT_EQ(by_host.parent, binomial_tree(rank, 0, 128).parent);
    EXPECT_EQ(by_host.children.size(), binomial_tree(rank, 0, 128).children.size());
  }
}

// Round robin: neighbours are on different hosts.
TEST(GatherTree, RanksDealtOutInTurn) {
  HostTable hosts;
  for (int rank = 0; rank < 13; ++rank) hosts.add(rank % 2 == 0 ? "a1" : "b1");
  std::vector<GatherTree> trees;
  for (int rank = 0; rank < 13; ++rank) trees.push_back(host_tree(rank, hosts, 13));
  check(trees, 0);
}

}  // namespace
}  // namespace trireme::comm
