// Claim: of the ranks of a node, one speaks for a failure, once.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/claim.hpp"

#include <gtest/gtest.h>

#include "comm/mpi/state.hpp"
#include "support/world.hpp"

namespace trireme::comm {
namespace {

using test::world;

TEST(Claim, OneSpeaks) {
  const int rank = world().rank(), last = world().size() - 1;
  Claim claim(world().state().world.get());
  EXPECT_EQ(claim.holder(), -1);
  world().barrier();
  if (rank == last) claim.keep_for(last);
  world().barrier();
  claim.keep_for(rank);
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
  Claim claim(world().state().world.get());
  if (rank == last) claim.keep_for(last);
  world().barrier();
  if (rank == 0) {
    EXPECT_TRUE(claim.take_from_any(0));
  }
  world().barrier();
  EXPECT_EQ(claim.holder(), 0);
  EXPECT_FALSE(claim.take(rank));
}

}  // namespace
}  // namespace trireme::comm
