// Links of a ring: all are made, in few waits whatever its size.
// SPDX-License-Identifier: Apache-2.0
#include "comm/ring_links.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace trireme::comm {
namespace {

struct Made {
  std::set<Link> links;
  int waits = 0;
};

// Ranks make their links in their order; a link is made when it is the next of both
// ranks. All that can be made at the same time count as one wait.
Made make_all(int size) {
  std::vector<std::vector<Link>> left;
  for (int rank = 0; rank < size; ++rank) {
    left.push_back(ring_links(rank, size));
    std::reverse(left.back().begin(), left.back().end());
  }
  const auto next = [&](int rank, const Link& link) {
    const auto& of_rank = left[static_cast<std::size_t>(rank)];
    return !of_rank.empty() && of_rank.back() == link;
  };
  Made made;
  for (;; ++made.waits) {
    std::set<Link> now;
    for (const auto& of_rank : left)
      if (!of_rank.empty() && next(of_rank.back().first, of_rank.back()) &&
          next(of_rank.back().second, of_rank.back()))
        now.insert(of_rank.back());
    if (now.empty()) return made;
    for (const Link& link : now) {
      for (const int rank : {link.first, link.second})
        left[static_cast<std::size_t>(rank)].pop_back();
      EXPECT_TRUE(made.links.insert(link).second);
    }
  }
}

TEST(RingLinks, NeighboursAreLinkedInBothDirections) {
  EXPECT_TRUE(ring_links(0, 1).empty());
  for (int size = 2; size <= 40; ++size) {
    std::set<Link> expected;
    for (int rank = 0; rank < size; ++rank) {
      expected.insert({rank, (rank + 1) % size});
      expected.insert({(rank + 1) % size, rank});
    }
    EXPECT_EQ(make_all(size).links, expected) << size;
  }
}

TEST(RingLinks, WaitsDoNotGrowWithTheRing) {
  for (const int size : {2, 3, 4, 5, 8, 63, 64, 126, 127, 1024, 1025})
    EXPECT_LE(make_all(size).waits, 6) << size;
}

}  // namespace
}  // namespace trireme::comm
