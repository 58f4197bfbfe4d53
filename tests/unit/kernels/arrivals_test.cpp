// The order of rows that arrive at their experts, at once and in rounds.
// SPDX-License-Identifier: Apache-2.0
// Legend: P source ranks, L experts of this rank, M = L + 1.
#include "kernels/arrivals.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "base/philox.hpp"
#include "unit/kernels/integers.hpp"

namespace trireme::test {
namespace {

using Counts = std::vector<std::int32_t>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// What each of P ranks sends to each of L experts: up to 200 rows, often none.
Counts random_counts(std::int64_t P, std::int64_t L) {
  const Random random(3, static_cast<std::uint64_t>(P * 1000 + L));
  Counts counts;
  for (std::uint64_t i = 0; counts.size() < at(P * L); ++i)
    counts.push_back(
        std::max(0, static_cast<std::int32_t>(300 * random.uniform(i)) - 100));
  return counts;
}

// A row, as it arrives: from where, for which expert, and the how-manieth of these.
struct Row {
  std::int64_t p, l, i;
};

// The rows that come, in the order of arrival: of all those that `comes` says.
template <class F>
Counts order_of(std::int64_t P, std::int64_t L, const Counts& rows_PL, const F& comes) {
  std::vector<Row> rows;
  for (std::int64_t p = 0; p < P; ++p)
    for (std::int64_t l = 0; l < L; ++l)
      for (std::int64_t i = 0; i < rows_PL[at(p * L + l)]; ++i)
        if (comes(Row{p, l, i})) rows.push_back({p, l, i});
  Counts order;
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(rows.size()); ++r)
    order.push_back(r);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const Row &x = rows[at(a)], &y = rows[at(b)];
    return std::tuple(x.l, x.p) < std::tuple(y.l, y.p);
  });
  return order;
}

class Arrivals : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  std::int64_t P() const { return std::get<0>(GetParam()); }
  std::int64_t L() const { return std::get<1>(GetParam()); }
  // Rows of all ranks and experts that come in the window.
  void expect_order(const Counts& rows_PL, const TensorView& places_PM, Range window,
                    const Counts& expected) {
    const Integers rows({P(), L()}, rows_PL);
    const Integers order({static_cast<std::int64_t>(expected.size())},
                         Counts(expected.size(), -3));
    kernels::order_arrivals(stream_, rows, places_PM, window, order);
    EXPECT_EQ(order.values(), expected) << window.begin << " to " << window.end;
  }
  Stream stream_{test_device()};
};
INSTANTIATE_TEST_SUITE_P(Ranks, Arrivals,
                         testing::Values(std::tuple(2, 1), std::tuple(2, 3),
                                         std::tuple(3, 11), std::tuple(5, 64),
                                         std::tuple(67, 1), std::tuple(320, 2)),
                         [](const auto& of) {
                           return std::to_string(std::get<0>(of.param)) + "x" +
                                  std::to_string(std::get<1>(of.param));
                         });

TEST_P(Arrivals, AllAtOnceAreSortedByExpertAndThenRank) {
  const Counts rows = random_counts(P(), L());
  expect_order(rows, {}, {}, order_of(P(), L(), rows, [](const Row&) { return true; }));
  const Counts none(rows.size());
  expect_order(none, {}, {}, {});
}

// Rounds end between blocks, leave out less than one each, and bring all rows.
TEST_P(Arrivals, InRoundsEachRowHasItsPlace) {
  const Counts counts = random_counts(P(), L());
  const Integers rows({P(), L()}, counts);
  std::int64_t all = 0;
  for (const std::int32_t count : counts) all += count;
  for (const std::int64_t block : {1, 32, 128})
    for (const std::int64_t blocks : {1, 3, 1000}) {
      const std::int64_t bound = block * blocks;
      if (all / bound > 200) continue;  // as many rounds as tell something
      const Integers places({P(), L() + 1}, Counts(at(P() * (L() + 1)), -3));
      kernels::place_arrivals(stream_, rows, bound, block, places);
      const Counts place_PM = places.values();
      const auto first = [&](std::int64_t p, std::int64_t l) -> std::int64_t {
        return place_PM[at(p * (L() + 1) + l)];
      };
      std::int64_t next = 0;
      for (std::int64_t l = 0; l < L(); ++l)
        for (std::int64_t p = 0; p < P(); ++p) {
          const std::int64_t begin = first(p, l), count = counts[at(p * L() + l)];
          ASSERT_GE(begin, next) << block << " " << bound;
          ASSERT_LT(begin - next, block) << block << " " << bound;
          if (begin > next) {
            ASSERT_GT(count, bound - next % bound) << "nothing is cut here";
          }
          if ((begin + count - 1) / bound > begin / bound) {
            ASSERT_EQ((bound - begin % bound) % block, 0) << "cut within a block";
          }
          next = begin + count;
        }
      for (std::int64_t p = 0; p < P(); ++p) ASSERT_EQ(first(p, L()), next);
      for (std::int64_t begin = 0; begin < next; begin += bound)
        expect_order(counts, places, {begin, begin + bound},
                     order_of(P(), L(), counts, [&](const Row& row) {
                       const std::int64_t place = first(row.p, row.l) + row.i;
                       return begin <= place && place < begin + bound;
                     }));
    }
}

TEST(ArrivalsByHand, ABlockThatARoundWouldCutBeginsLater) {
  Stream stream(test_device());
  const Integers rows({2, 2}, {3, 1, 6, 0}), places({2, 3});
  kernels::place_arrivals(stream, rows, 8, 4, places);
  // Expert 0: 3 rows of rank 0 at 0, and 6 of rank 1, of which 4 fit in the 5 places that
  // are left: they begin at 4. Expert 1: one row of rank 0, behind them.
  EXPECT_EQ(places.values(), (Counts{0, 10, 11, 4, 11, 11}));
  const Integers first({7}), second({3});
  kernels::order_arrivals(stream, rows, places, {0, 8}, first);
  EXPECT_EQ(first.values(), (Counts{0, 1, 2, 3, 4, 5, 6}));
  kernels::order_arrivals(stream, rows, places, {8, 16}, second);
  EXPECT_EQ(second.values(), (Counts{1, 2, 0}));
}

}  // namespace
}  // namespace trireme::test
