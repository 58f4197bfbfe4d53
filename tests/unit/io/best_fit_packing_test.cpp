// Best fit of documents: against a search through all rows, and what rows may not lose.
// SPDX-License-Identifier: Apache-2.0
#include "io/best_fit_packing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/philox.hpp"

namespace trireme::io {
namespace {

std::vector<std::int64_t> ends_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> ends;
  std::int64_t sum = 0;
  for (const std::int64_t length : lengths) ends.push_back(sum += length);
  return ends;
}

// Lengths of the pieces of each row.
std::multiset<std::vector<std::int64_t>> lengths_of(const BestFitPacking& rows) {
  std::multiset<std::vector<std::int64_t>> all;
  for (std::int64_t r = 0; r < rows.rows(); ++r) {
    std::vector<std::int64_t> row;
    for (const DocumentPiece& piece : rows.row(r)) row.push_back(piece.tokens);
    all.insert(row);
  }
  return all;
}

TEST(BestFitPacking, PutsEachWhereItLeavesTheLeastRoom) {
  // 7, then 6, then 5 open rows of 10; 4 fits best beside 6, 3 beside 7, the 3 after it
  // beside 5, and 2 in what that has left.
  const BestFitPacking rows(ends_of({3, 4, 7, 3, 2, 5, 6}), 10, 1);
  EXPECT_EQ(lengths_of(rows),
            (std::multiset<std::vector<std::int64_t>>{{7, 3}, {6, 4}, {5, 3, 2}}));
  EXPECT_EQ(rows.padding(), 0.0);
  EXPECT_EQ(rows.documents(), 7);
  EXPECT_EQ(rows.bytes(), 7 * 16 + (3 + 1) * 8);
}

// Rooms that rows have left in the end, by looking through all rows for each document.
std::multiset<std::int64_t> rooms_by_search(std::vector<std::int64_t> lengths,
                                            std::int64_t most) {
  std::sort(lengths.rbegin(), lengths.rend());
  std::vector<std::int64_t> rooms;
  for (const std::int64_t length : lengths) {
    auto best = rooms.end();
    for (auto at = rooms.begin(); at != rooms.end(); ++at)
      if (*at >= length && (best == rooms.end() || *at < *best)) best = at;
    if (best == rooms.end()) best = rooms.insert(rooms.end(), most);
    *best -= length;
  }
  return {rooms.begin(), rooms.end()};
}

TEST(BestFitPacking, LeavesTheRoomThatASearchThroughAllRowsLeaves) {
  const Random random(7, 0);
  for (const std::int64_t most : {2, 3, 31, 32, 33, 100}) {
    std::vector<std::int64_t> lengths;
    for (std::uint64_t i = 0; i < 500; ++i)
      lengths.push_back(2 + static_cast<std::int64_t>(random.below(
                                1000 * i, static_cast<std::uint64_t>(most - 1))));
    const BestFitPacking rows(ends_of(lengths), most, 3);
    std::multiset<std::int64_t> rooms;
    std::int64_t held = 0;
    for (std::int64_t r = 0; r < rows.rows(); ++r) {
      std::int64_t room = most;
      for (const DocumentPiece& piece : rows.row(r)) room -= piece.tokens;
      EXPECT_GE(room, 0);
      rooms.insert(room);
      held += most - room;
    }
    EXPECT_EQ(rooms, rooms_by_search(lengths, most)) << most;
    EXPECT_DOUBLE_EQ(rows.padding(), 1.0 - static_cast<double>(held) /
                                               static_cast<double>(most * rows.rows()));
  }
}

TEST(BestFitPacking, EveryTokenButADocumentsFirstIsATargetOnce) {
  const std::vector<std::int64_t> lengths = {1, 9, 10, 11, 12, 0, 19, 20, 37, 1, 2, 28};
  const std::vector<std::int64_t> ends = ends_of(lengths);
  const BestFitPacking rows(ends, 10, 1);
  std::multiset<std::int64_t> targets, wanted;
  for (std::int64_t r = 0; r < rows.rows(); ++r)
    for (const DocumentPiece& piece : rows.row(r)) {
      EXPECT_GE(piece.tokens, 2);
      for (std::int64_t t = 1; t < piece.tokens; ++t) targets.insert(piece.begin + t);
    }
  for (std::size_t d = 0; d < ends.size(); ++d)
    for (std::int64_t t = ends[d] - lengths[d] + 1; t < ends[d]; ++t) wanted.insert(t);
  EXPECT_EQ(targets, wanted);
  EXPECT_EQ(rows.left_out(), 3);  // two of one token and an empty one
  EXPECT_EQ(rows.cut(), 6);
}

TEST(BestFitPacking, TheSeedMovesOnlyDocumentsOfOneLength) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 300; ++i) lengths.push_back(2 + i % 7);
  const auto ends = ends_of(lengths);
  const auto begins = [&](std::uint64_t seed) {
    std::vector<std::int64_t> all;
    const BestFitPacking rows(ends, 12, seed);
    for (std::int64_t r = 0; r < rows.rows(); ++r)
      for (const DocumentPiece& piece : rows.row(r)) all.push_back(piece.begin);
    return all;
  };
  EXPECT_EQ(begins(5), begins(5));
  EXPECT_NE(begins(5), begins(6));
  // The longest documents are not in the first rows.
  const BestFitPacking rows(ends, 12, 5);
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < 10; ++r) longest += rows.row(r).front().tokens == 8;
  EXPECT_LT(longest, 10);
  EXPECT_EQ(lengths_of(BestFitPacking(ends, 12, 5)),
            lengths_of(BestFitPacking(ends, 12, 6)));
}

TEST(BestFitPacking, NothingButSingleTokensMakesNoRow) {
  const BestFitPacking rows(ends_of({1, 1, 0}), 8, 1);
  EXPECT_EQ(rows.rows(), 0);
  EXPECT_EQ(rows.left_out(), 3);
  EXPECT_EQ(rows.padding(), 0.0);
}

}  // namespace
}  // namespace trireme::io
