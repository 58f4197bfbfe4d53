// Positions of ranks, and what is made of them.
// SPDX-License-Identifier: Apache-2.0
#include "comm/position.hpp"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

using Positions = std::vector<std::optional<Position>>;

// Ranks of one group, all waiting in all_reduce #3.
Positions all_waiting(int ranks) {
  const RankList members = RankList::line(0, ranks);
  Positions positions;
  for (int r = 0; r < ranks; ++r) {
    Position p{.rank = r,
               .host = "node",
               .phase = "training step",
               .step = 5,
               .beat = 9,
               .silent = 2.5,
               .allowed = 2,
               .waiting = true,
               .groups = {{"data", members, 3}},
               .calls = {{"data", members, 3, "all_reduce", "fp32[8]", 32, false}}};
    positions.emplace_back(p);
  }
  return positions;
}

std::string verdict(const Positions& positions) {
  const std::string text = describe_hang(positions, 0);
  return text.substr(0, text.find('\n'));
}

TEST(Position, ComesBackAsItWas) {
  Position p = *all_waiting(3)[1];
  p.calls.push_back({"world", std::nullopt, 4, "barrier", "", 0, true});
  const auto back = read_position(write_position(p));
  ASSERT_TRUE(back);
  EXPECT_EQ(write_position(*back), write_position(p));
  EXPECT_EQ(back->phase, "training step");
  EXPECT_EQ(back->calls[0].ranks, RankList::line(0, 3));
  EXPECT_EQ(back->calls[1].tensor, "");
  EXPECT_FALSE(back->calls[1].ranks);
  EXPECT_TRUE(back->waiting);
}

TEST(Position, AnyPieceOfItIsNone) {
  const std::string whole = write_position(*all_waiting(2)[0]);
  for (std::size_t n = 0; n + 1 < whole.size(); ++n)
    EXPECT_FALSE(read_position(whole.substr(0, n))) << n;
  EXPECT_FALSE(read_position("rank\tx\n" + whole));
}

TEST(Position, RanksInWords) {
  EXPECT_EQ(ranks_text(std::vector{4}), "4");
  EXPECT_EQ(ranks_text(std::vector{0, 1, 2, 5, 6, 9}), "0-2, 5, 6, 9");
  std::vector<int> many;
  for (int r = 0; r < 40; r += 2) many.push_back(r);
  EXPECT_NE(ranks_text(many).find("22 and 8 more"), std::string::npos);
}

TEST(Hang, WhoHasNotEntered) {
  auto positions = all_waiting(4);
  positions[2]->groups[0].entered = 2;
  positions[2]->calls.clear();
  positions[2]->waiting = false;
  EXPECT_EQ(verdict(positions),
            "rank 2 (host node) has not entered all_reduce #3 fp32[8] (32 bytes) on axis "
            "'data' of ranks 0-3");
  positions[1].reset();  // one that has told nothing is late too
  EXPECT_NE(verdict(positions).find("rank 1 (host unknown), rank 2 (host node) have"),
            std::string::npos);
}

// Rank 3 waits for rank 2 in another group: only rank 2 is to blame.
TEST(Hang, WhoWaitsIsNotToBlame) {
  auto positions = all_waiting(4);
  for (const std::size_t r : {2u, 3u}) {
    positions[r]->groups[0].entered = 2;
    positions[r]->calls.clear();
  }
  positions[2]->waiting = false;
  positions[3]->calls.push_back(
      {"tensor", RankList::line(2, 2), 1, "receive", "fp32[8]", 32, true});
  EXPECT_TRUE(verdict(positions).starts_with("rank 2 (host node) has not entered"));
}

TEST(Hang, WhoWantsSomethingElse) {
  auto positions = all_waiting(3);
  positions[1]->calls[0].operation = "broadcast";
  EXPECT_TRUE(verdict(positions).starts_with(
      "out of step: rank 1 (host node) in broadcast #3 fp32[8] (32 bytes) on axis 'data' "
      "of ranks 0-2; rank 0 (host node), rank 2 (host node) in all_reduce #3"))
      << verdict(positions);
}

TEST(Hang, WhoDoesNotGetOn) {
  auto positions = all_waiting(3);
  positions[0]->waiting = false;  // entered, and then?
  EXPECT_EQ(verdict(positions),
            "rank 0 (host node) waits for no rank and does not get on");
}

// Work is counted, not time: each rank is looked at a few times, not once for each other.
TEST(Hang, IsJudgedInProportionToTheRanks) {
  auto positions = all_waiting(10000);
  positions[7777]->groups[0].entered = 2;
  positions[7777]->calls.clear();
  positions[7777]->waiting = false;
  std::int64_t looks = 0;
  const std::string text = describe_hang(positions, 16, &looks);
  EXPECT_TRUE(text.starts_with("rank 7777 (host node) has not entered all_reduce #3"));
  EXPECT_LE(looks, 10 * 10000);
  EXPECT_LT(write_position(*positions[0]).size(), 200u);  // however many ranks
}

TEST(Hang, TheGuiltyComeFirst) {
  auto positions = all_waiting(20);
  positions[17]->groups[0].entered = 2;
  positions[17]->calls.clear();
  positions[17]->waiting = false;
  const std::string text = describe_hang(positions, 2);
  EXPECT_NE(text.find("\n  rank 17 (host node): 'training step', 5 steps done, 2.5 s "
                      "without progress, in no collective\n  rank 0 "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  and 18 more ranks"), std::string::npos);
}

}  // namespace
}  // namespace trireme::comm
