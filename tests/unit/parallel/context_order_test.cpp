// Orders of context parallelism: positions, and the balance.
// SPDX-License-Identifier: Apache-2.0
// What ranks see of each other follows from them.
#include "parallel/context_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "support/context_pairs.hpp"

namespace trireme::test {
namespace {

using parallel::context_positions;
using parallel::ContextOrder;
using parallel::visible_part;

constexpr ContextOrder orders[] = {ContextOrder::contiguous, ContextOrder::zigzag};

TEST(ContextOrder, DealsEveryPositionOnceInAscendingRows) {
  for (const ContextOrder order : orders)
    for (const int ranks : {1, 2, 3, 4, 7}) {
      const std::int64_t sequence = 2 * ranks * 5;
      std::multiset<std::int64_t> seen;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto positions = context_positions(order, sequence, ranks, rank);
        EXPECT_EQ(static_cast<std::int64_t>(positions.size()), sequence / ranks);
        EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
        seen.insert(positions.begin(), positions.end());
      }
      std::int64_t expected = 0;
      for (const std::int64_t position : seen) EXPECT_EQ(position, expected++);
      EXPECT_EQ(expected, sequence);
    }
}

TEST(ContextOrder, IsWhatItsNameSays) {
  EXPECT_EQ(context_positions(ContextOrder::contiguous, 6, 3, 1),
            (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(context_positions(ContextOrder::zigzag, 12, 3, 0),
            (std::vector<std::int64_t>{0, 1, 10, 11}));
  EXPECT_EQ(context_positions(ContextOrder::zigzag, 12, 3, 2),
            (std::vector<std::int64_t>{4, 5, 6, 7}));
}

TEST(ContextOrder, RefusesSequencesThatDoNotDivide) {
  EXPECT_THROW(context_positions(ContextOrder::zigzag, 6, 2, 0), Error);
  EXPECT_NO_THROW(context_positions(ContextOrder::contiguous, 6, 2, 0));
  EXPECT_THROW(context_positions(ContextOrder::contiguous, 7, 2, 0), Error);
}

// Pair by pair: a query sees the keys at its position and before.
TEST(ContextOrder, PartsHoldExactlyTheVisiblePairs) {
  for (const ContextOrder order : orders)
    for (const int ranks : {1, 2, 3, 4})
      for (int rank = 0; rank < ranks; ++rank) {
        const std::int64_t sequence = 2 * ranks * 3, rows = sequence / ranks;
        const auto queries = context_positions(order, sequence, ranks, rank);
        std::int64_t all = 0;
        for (int source = 0; source < ranks; ++source) {
          const auto keys = context_positions(order, sequence, ranks, source);
          const auto part = visible_part(order, rows, rank, source);
          std::int64_t pairs = 0;
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < rows; ++j) {
              const bool inside = part && part->queries.begin <= i &&
                                  i < part->queries.end && part->keys.begin <= j &&
                                  j < part->keys.end && (!part->causal || j <= i);
              const bool visible = keys[static_cast<std::size_t>(j)] <=
                                   queries[static_cast<std::size_t>(i)];
              EXPECT_EQ(inside, visible)
                  << name_of(order) << " " << rank << " of " << ranks << " on " << source;
              pairs += visible;
            }
          EXPECT_EQ(part ? part->pairs() : 0, pairs);
          all += pairs;
        }
        EXPECT_EQ(context_pairs(order, sequence, ranks, rank), all);
      }
}

TEST(ContextOrder, ZigzagIsBalancedAndContiguousIsNot) {
  constexpr std::int64_t sequence = 8192;
  for (const int ranks : {2, 4, 8, 16, 64}) {
    for (const ContextOrder order : orders) {
      std::int64_t least = sequence * sequence, most = 0, sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::int64_t pairs = context_pairs(order, sequence, ranks, rank);
        least = std::min(least, pairs);
        most = std::max(most, pairs);
        sum += pairs;
      }
      EXPECT_EQ(sum, sequence * (sequence + 1) / 2);
      const double mean = static_cast<double>(sum) / ranks;
      if (order == ContextOrder::zigzag) {
        EXPECT_LT(static_cast<double>(most - least), 0.02 * mean);
      } else {
        // The last rank's share of n^2 / 2 blocks is n - 1/2: (2 - 1/n) times the mean.
        EXPECT_NEAR(static_cast<double>(most) / mean, 2.0 - 1.0 / ranks, 0.01);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::test
