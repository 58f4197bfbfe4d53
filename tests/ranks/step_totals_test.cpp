// What the ranks add up and agree on in a step: more than one value shares a place.
// SPDX-License-Identifier: Apache-2.0
#include "engine/step_totals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "comm/mesh.hpp"
#include "support/world.hpp"

namespace trireme {
namespace {

TEST(StepTotals, AllKnowTheSlowestOfRanksWithTheSameWork) {
  const int size = test::world().size(), rank = test::world().rank();
  comm::Mesh mesh(test::world(), {.data = size});
  engine::StepTotals totals(mesh, Device::host());
  EXPECT_EQ(totals.finish({.loss = 1}, {.own = rank == 1 ? 3.0 : 2.0}).loss, size);
  ASSERT_TRUE(totals.slowest());
  EXPECT_EQ(totals.slowest()->rank, 1);
  EXPECT_NEAR(totals.slowest()->value, 1.5, 1e-8);
  // Of each host its slowest rank, slowest first: here each rank is a host.
  totals.tell_apart(rank, size);
  totals.finish({.loss = 1}, {.own = 2.0 + rank});
  const auto slow = totals.slowest_of_hosts(4);
  ASSERT_EQ(std::ssize(slow), std::min(size, 4));
  for (int i = 0; i < std::min(size, 4); ++i) {
    EXPECT_EQ(slow[static_cast<std::size_t>(i)].rank, size - 1 - i);
    const double own = 1.0 + size - i, all = size * (3.0 + size) / 2;
    EXPECT_NEAR(slow[static_cast<std::size_t>(i)].value, own * (size - 1) / (all - own),
                1e-7);
  }
  totals.tell_apart(0, 1);
  totals.finish({.loss = 1}, {.own = 2.0 + rank});
  EXPECT_EQ(totals.slowest_of_hosts(4).size(), 1u);
  // Nobody has the same weights.
  comm::Mesh parts(test::world(), {.tensor = size});
  engine::StepTotals alone(parts, Device::host());
  alone.finish({.loss = 1}, {.own = rank == 1 ? 3.0 : 2.0});
  EXPECT_FALSE(alone.slowest());
}

// Whole numbers that share a place in the row come apart again, the greatest that there
// may be, too.
TEST(StepTotals, RoundsOfExpertsTravelWithTheRest) {
  const int size = test::world().size(), rank = test::world().rank();
  comm::Mesh mesh(test::world(), {.data = size});
  engine::StepTotals totals(mesh, Device::host());
  totals.tell_apart(rank, size);
  const auto all =
      totals.finish({.stop_request = rank == 1 ? 3 : 0,
                     .rounds = {.sum = 100.0 + rank, .count = 60, .max = 5.0 + rank}},
                    {.own = 2.0 + rank});
  EXPECT_EQ(all.stop_request, 3);
  EXPECT_EQ(all.rounds.sum, 100 * size + size * (size - 1) / 2);
  EXPECT_EQ(all.rounds.count, 60 * size);
  EXPECT_EQ(all.rounds.max, 4 + size);
  EXPECT_EQ(totals.slowest_of_hosts(size).size(), static_cast<std::size_t>(size));
  EXPECT_EQ(totals.slowest()->rank, size - 1);
  const double greatest = rank == 0 ? 0x1p32 : 0.0;
  const auto most =
      totals.finish({.rounds = {.sum = greatest, .count = greatest, .max = 65535}}, {});
  EXPECT_EQ(most.stop_request, 0);
  EXPECT_EQ(most.rounds.max, 65535);
  EXPECT_EQ(most.rounds.sum, 0x1p32);
  EXPECT_EQ(most.rounds.mean(), 1);
}

// Each rank counts what no other counts; what one of them does not know is not known of
// all.
TEST(StepTotals, JoulesAreAddedUp) {
  const int size = test::world().size(), rank = test::world().rank();
  comm::Mesh mesh(test::world(), {.data = size});
  engine::StepTotals totals(mesh, Device::host());
  const float own = 1.5F + static_cast<float>(rank);
  const auto all =
      totals.finish({.loss = 1, .joules = {own, rank == 0 ? 40.0F : 0.0F}}, {.run = 1});
  EXPECT_EQ(all.joules.gpus,
            1.5F * static_cast<float>(size) + static_cast<float>(size * (size - 1) / 2));
  EXPECT_EQ(all.joules.nodes, 40.0F);
  const auto less = totals.finish(
      {.loss = 1, .joules = {own, rank == size - 1 ? engine::Joules::unknown : 0.0F}},
      {.run = 1});
  EXPECT_EQ(less.joules.gpus, all.joules.gpus);
  EXPECT_TRUE(std::isnan(less.joules.nodes));
  EXPECT_TRUE(std::isnan(totals.finish({.loss = 1}, {}).joules.gpus));
}

}  // namespace
}  // namespace trireme
