// Placement of groups: a warning where one spans more hosts than it must.
// SPDX-License-Identifier: Apache-2.0
#include "launch/group_placement.hpp"

#include <gtest/gtest.h>

namespace trireme::launch {
namespace {

comm::HostTable hosts(int count, int ranks_each, bool cyclic = false) {
  comm::HostTable table;
  for (int rank = 0; rank < count * ranks_each; ++rank)
    table.add("node" + std::to_string(cyclic ? rank % count : rank / ranks_each));
  return table;
}

bool names(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(GroupPlacement, RanksInBlocksAreWell) {
  EXPECT_EQ(placement_warning({.data = 2, .tensor = 8}, 1, hosts(2, 8)), "");
  EXPECT_EQ(placement_warning({.data = 2, .context = 2, .tensor = 4}, 1, hosts(2, 8)),
            "");
  EXPECT_EQ(placement_warning({.pipeline = 2, .data = 8}, 8, hosts(2, 8)), "");
  // Groups that no host holds.
  EXPECT_EQ(placement_warning({.tensor = 16}, 1, hosts(2, 8)), "");
  EXPECT_EQ(placement_warning({.data = 16, .tensor = 2}, 16, hosts(4, 8)), "");
  EXPECT_EQ(placement_warning({.pipeline = 4, .data = 7}, 7, hosts(7, 4)), "");
  EXPECT_EQ(placement_warning({.data = 8}, 8, hosts(1, 8)), "");
}

TEST(GroupPlacement, LongRingsAreNamed) {
  EXPECT_EQ(long_ring_warning(511), "");
  const std::string text = long_ring_warning(512);
  EXPECT_TRUE(names(text, "waits for 511 messages")) << text;
  EXPECT_TRUE(names(text, "HYBRID_SHARD")) << text;
}

TEST(GroupPlacement, RanksInTurnsAreNot) {
  const std::string text =
      placement_warning({.data = 2, .tensor = 4}, 1, hosts(4, 2, true));
  EXPECT_TRUE(names(text, "tensor group of ranks 0 to 3 lies on 4 hosts, where 2"));
  EXPECT_TRUE(names(placement_warning({.data = 4, .tensor = 2}, 1, hosts(2, 4, true)),
                    "tensor group of ranks 0 to 1 lies on 2 hosts, where 1"));
  EXPECT_TRUE(names(placement_warning({.data = 2, .context = 4}, 1, hosts(2, 4, true)),
                    "context group of ranks 0 to 3 lies on 2 hosts"));
  EXPECT_TRUE(names(placement_warning({.data = 8}, 4, hosts(2, 4, true)),
                    "shard group of ranks 0 to 3 lies on 2 hosts"));
}

TEST(GroupPlacement, HostsThatGroupsDoNotFill) {
  const std::string text = placement_warning({.data = 3, .tensor = 4}, 1, hosts(2, 6));
  EXPECT_TRUE(names(text, "tensor group of ranks 4 to 7 lies on 2 hosts, where 1"));
  EXPECT_TRUE(names(text, "as many on each as groups of 4 fill"));
  EXPECT_TRUE(
      names(placement_warning({.data = 3, .context = 2, .tensor = 2}, 1, hosts(2, 6)),
            "context group of ranks 4 to 6 in steps of 2 lies on 2 hosts, where 1"));
}

}  // namespace
}  // namespace trireme::launch
