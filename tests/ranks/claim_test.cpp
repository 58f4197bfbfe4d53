// Claim: of the ranks of a node, one speaks for a failure, once.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/claim.hpp"

#include <gtest/gtest.h>

#include "comm/mpi/state.hpp"
#include "support/world.hpp"

namespace trireme::comm {
namespace {

using test::world;

int lowest(int value) { return -static_cast<int>(world().max(-value)); }

TEST(Claim, OneSpeaks) {
  const int rank = world().rank(), last = world().size() - 1;
  const NodeMemory shared(world().state().world.get(), 1, lowest);
  Claim claim(shared.common());
  EXPECT_EQ(claim.holder(), -1);
  world().barrier();
  if (rank == last) claim.nominate(last);
  world().barrier();
  claim.nominate(rank);
  EXPECT_EQ(claim.holder(), last);
  if (rank != last) {
    EXPECT_FALSE(claim.take(rank));
  }
  world().barrier();
  // The one that is named speaks, once.
  EXPECT_EQ(claim.take(rank), rank == last);
  world().barrier();
  EXPECT_FALSE(claim.take(rank));
  EXPECT_FALSE(claim.take_from_any(rank));
}

// A rank that is named does not get so far.
TEST(Claim, AnotherSpeaksForIt) {
  const int rank = world().rank(), last = world().size() - 1;
  const NodeMemory shared(world().state().world.get(), 1, lowest);
  Claim claim(shared.common());
  if (rank == last) claim.nominate(last);
  world().barrier();
  if (rank == 0) {
    EXPECT_TRUE(claim.take_from_any(0));
  }
  world().barrier();
  EXPECT_EQ(claim.holder(), 0);
  EXPECT_FALSE(claim.take(rank));
}

// Each writes its own words, and reads those of all.
TEST(NodeMemory, HasWordsOfEach) {
  const int rank = world().rank(), size = world().size();
  const NodeMemory shared(world().state().world.get(), 2, lowest);
  const std::span<std::uint64_t> words = shared.of_each();
  ASSERT_EQ(words.size(), size > 1 ? 2 * static_cast<std::size_t>(size) : 0);
  if (size == 1) return;
  EXPECT_EQ(words[2 * static_cast<std::size_t>(rank) + 1], 0);
  world().barrier();
  words[2 * static_cast<std::size_t>(rank) + 1] = static_cast<std::uint64_t>(rank) + 7;
  world().barrier();
  for (std::size_t r = 0; r < words.size() / 2; ++r) {
    EXPECT_EQ(words[2 * r], 0);
    EXPECT_EQ(words[2 * r + 1], r + 7);
  }
}

}  // namespace
}  // namespace trireme::comm
