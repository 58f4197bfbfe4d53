// Statuses of ranks, and what is made of them.
// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_status.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "comm/heartbeat_board.hpp"

namespace trireme::comm {
namespace {

using Statuses = std::vector<std::optional<RankStatus>>;

// Ranks of one group, all waiting in all_reduce #3.
Statuses all_waiting(int ranks) {
  const RankList members = RankList::line(0, ranks);
  Statuses statuses;
  for (int r = 0; r < ranks; ++r) {
    RankStatus p{.rank = r,
                 .host = "node",
                 .phase = "training step",
                 .step = 5,
                 .beat = 9,
                 .silent = 2.5,
                 .allowed = 2,
                 .waiting = true,
                 .groups = {{"data", members, 3}},
                 .calls = {{"data", members, 3, "all_reduce", "fp32[8]", 32, false}}};
    statuses.emplace_back(p);
  }
  return statuses;
}

std::string verdict(const Statuses& statuses) {
  const std::string text = describe_hang(statuses, 0);
  return text.substr(0, text.find('\n'));
}

TEST(RankStatus, ComesBackAsItWas) {
  RankStatus p = *all_waiting(3)[1];
  p.calls.push_back({"world", std::nullopt, 4, "barrier", "", 0, true});
  p.device = "GPU 0000:3b:00.0";
  const auto back = read_status(write_status(p));
  ASSERT_TRUE(back);
  EXPECT_EQ(write_status(*back), write_status(p));
  EXPECT_EQ(back->phase, "training step");
  EXPECT_EQ(back->calls[0].ranks, RankList::line(0, 3));
  EXPECT_EQ(back->calls[1].tensor, "");
  EXPECT_FALSE(back->calls[1].ranks);
  EXPECT_TRUE(back->waiting);
  EXPECT_EQ(back->device, "GPU 0000:3b:00.0");
}

TEST(Hang, NamesTheGpuBesideTheHost) {
  auto statuses = all_waiting(2);
  statuses[1]->groups[0].entered = 2;
  statuses[1]->calls.clear();
  statuses[1]->waiting = false;
  statuses[1]->device = "GPU 0000:3b:00.0";
  const std::string text = describe_hang(statuses, 2);
  EXPECT_NE(text.find("\n  rank 1 (host node, GPU 0000:3b:00.0): "), text.npos) << text;
  EXPECT_NE(text.find("\n  rank 0 (host node): "), text.npos) << text;
}

TEST(RankStatus, AnyPieceOfItIsNone) {
  const std::string whole = write_status(*all_waiting(2)[0]);
  for (std::size_t n = 0; n + 1 < whole.size(); ++n)
    EXPECT_FALSE(read_status(whole.substr(0, n))) << n;
  EXPECT_FALSE(read_status("rank\tx\n" + whole));
}

TEST(RankStatus, RanksInWords) {
  EXPECT_EQ(ranks_text(std::vector{4}), "4");
  EXPECT_EQ(ranks_text(std::vector{0, 1, 2, 5, 6, 9}), "0-2, 5, 6, 9");
  std::vector<int> many;
  for (int r = 0; r < 40; r += 2) many.push_back(r);
  EXPECT_NE(ranks_text(many).find("22 and 8 more"), std::string::npos);
}

TEST(Hang, WhoHasNotEntered) {
  auto statuses = all_waiting(4);
  statuses[2]->groups[0].entered = 2;
  statuses[2]->calls.clear();
  statuses[2]->waiting = false;
  EXPECT_EQ(verdict(statuses),
            "rank 2 (host node) has not entered all_reduce #3 fp32[8] (32 bytes) on axis "
            "'data' of ranks 0-3");
  statuses[1].reset();  // one that has told nothing is late too
  EXPECT_NE(verdict(statuses).find("rank 1 (host unknown), rank 2 (host node) have"),
            std::string::npos);
}

// Rank 3 waits for rank 2 in another group: only rank 2 is to blame.
TEST(Hang, WhoWaitsIsNotToBlame) {
  auto statuses = all_waiting(4);
  for (const std::size_t r : {2u, 3u}) {
    statuses[r]->groups[0].entered = 2;
    statuses[r]->calls.clear();
  }
  statuses[2]->waiting = false;
  statuses[3]->calls.push_back(
      {"tensor", RankList::line(2, 2), 1, "receive", "fp32[8]", 32, true});
  EXPECT_TRUE(verdict(statuses).starts_with("rank 2 (host node) has not entered"));
}

TEST(Hang, WhoWantsSomethingElse) {
  auto statuses = all_waiting(3);
  statuses[1]->calls[0].operation = "broadcast";
  EXPECT_TRUE(verdict(statuses).starts_with(
      "out of step: rank 1 (host node) in broadcast #3 fp32[8] (32 bytes) on axis 'data' "
      "of ranks 0-2; rank 0 (host node), rank 2 (host node) in all_reduce #3"))
      << verdict(statuses);
}

TEST(Hang, WhoDoesNotGetOn) {
  auto statuses = all_waiting(3);
  statuses[0]->waiting = false;  // entered, and then?
  EXPECT_EQ(verdict(statuses),
            "rank 0 (host node) waits for no rank and does not get on");
}

// Work is counted, not time: each rank is looked at a few times, not once for each other.
TEST(Hang, IsJudgedInProportionToTheRanks) {
  auto statuses = all_waiting(10000);
  statuses[7777]->groups[0].entered = 2;
  statuses[7777]->calls.clear();
  statuses[7777]->waiting = false;
  std::int64_t looks = 0;
  const std::string text = describe_hang(statuses, 16, &looks);
  EXPECT_TRUE(text.starts_with("rank 7777 (host node) has not entered all_reduce #3"));
  EXPECT_LE(looks, 10 * 10000);
  EXPECT_LT(write_status(*statuses[0]).size(), 200u);  // however many ranks
}

TEST(Hang, TheGuiltyComeFirst) {
  auto statuses = all_waiting(20);
  statuses[17]->groups[0].entered = 2;
  statuses[17]->calls.clear();
  statuses[17]->waiting = false;
  const std::string text = describe_hang(statuses, 2);
  EXPECT_NE(text.find("\n  rank 17 (host node): 'training step', 5 steps done, 2.5 s "
                      "without progress, in no collective\n  rank 0 "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\n  and 18 more ranks"), std::string::npos);
}

// The files of two nodes of two ranks each.
class Boards : public testing::Test {
 protected:
  Boards() {
    std::filesystem::create_directories(folder_);
    for (int r = 0; r < 4; ++r) hosts_.add(r < 2 ? "node1" : "node2");
    for (int r = 0; r < 4; ++r)
      boards_.emplace_back(folder_, "run", HeartbeatPlace{r / 2 * 2, r % 2, 2});
  }
  ~Boards() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      all.push_back(entry.path().filename());
    std::sort(all.begin(), all.end());
    return all;
  }
  void publish(int rank, bool stands_still) {
    boards_[static_cast<std::size_t>(rank)].publish(
        *all_waiting(4)[static_cast<std::size_t>(rank)], stands_still);
  }

  // Of those of `ranks` ranks that have told anything.
  std::vector<RankStatus> all(std::size_t board, int ranks = 4) const {
    const auto reports = boards_[board].reports(hosts_, ranks);
    std::vector<RankStatus> known;
    for (int rank = 0; rank < ranks; ++rank)
      if (const auto status = reports->status(rank)) known.push_back(*status);
    return known;
  }
  std::vector<Heartbeat> first_node(std::size_t board) const {
    std::vector<Heartbeat> beats;
    boards_[board].first_node([&](const Heartbeat& beat) { beats.push_back(beat); });
    return beats;
  }

  std::string folder_ = testing::TempDir() + "beats" + std::to_string(::getpid());
  HostTable hosts_;
  std::vector<HeartbeatBoard> boards_;
};

TEST_F(Boards, AFileForANode) {
  for (int r = 3; r >= 0; --r) publish(r, r != 1);
  EXPECT_EQ(names(), (std::vector<std::string>{"beats-00000-run", "beats-00002-run"}));
  const auto first = first_node(3);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[1].rank, 1);
  EXPECT_STREQ(first[1].phase.data(), "training step");
  EXPECT_EQ(first[1].step, 5);
  EXPECT_EQ(first[1].beat, 9);
  EXPECT_EQ(first[1].silent, 2.5);
  EXPECT_TRUE(first[1].waiting);
  EXPECT_EQ(first[1].text_bytes, 0);
  int others = 0;
  boards_[0].other_nodes(
      [&](const Heartbeat& beat) { others += beat.rank > 1 ? 1 : 10; });
  ASSERT_EQ(others, 2);
  // Where they are, of those that stand still.
  const auto told = all(0);
  ASSERT_EQ(told.size(), 4u);
  for (const RankStatus& p : told) {
    EXPECT_EQ(p.told, p.rank != 1) << p.rank;
    RankStatus whole = *all_waiting(4)[static_cast<std::size_t>(p.rank)];
    EXPECT_EQ(p.host, p.rank < 2 ? "node1" : "node2");
    whole.host = p.host;
    EXPECT_TRUE(!p.told || write_status(p) == write_status(whole)) << p.rank;
  }
  // It gets on: what it told before is not of now.
  publish(3, false);
  EXPECT_FALSE(all(0)[3].told);
}

// The lowest rank of a node writes the beats of all, those of others lie in memory; where
// it stops, the next one does.
TEST_F(Boards, OneWritesForTheNode) {
  std::vector<std::uint64_t> shared(3 * heartbeat_words);
  std::vector<HeartbeatBoard> node;
  for (int slot = 0; slot < 3; ++slot)
    node.emplace_back(folder_, "node", HeartbeatPlace{0, slot, 3}, shared);
  std::int64_t beat = 0;
  const auto look = [&](int rank, bool stands_still = false) {
    RankStatus p = *all_waiting(4)[static_cast<std::size_t>(rank)];
    p.beat = ++beat;
    node[static_cast<std::size_t>(rank)].publish(p, stands_still);
  };
  const auto beats = [&] {
    std::vector<std::uint32_t> known;
    node[0].first_node([&](const Heartbeat& told) { known.push_back(told.beat); });
    return known;
  };
  look(0), look(1), look(2);
  EXPECT_EQ(beats(), std::vector<std::uint32_t>{1});
  look(0);
  EXPECT_EQ(beats(), (std::vector<std::uint32_t>{4, 2, 3}));
  look(1), look(2);
  EXPECT_EQ(beats(), (std::vector<std::uint32_t>{4, 2, 3}));
  // Who stands still tells it at once, and the next look of the first leaves it.
  look(2, true);
  EXPECT_EQ(beats(), (std::vector<std::uint32_t>{4, 2, 7}));
  look(0);
  EXPECT_EQ(beats(), (std::vector<std::uint32_t>{8, 5, 7}));
  // The first has stopped.
  look(1), look(1), look(1);
  EXPECT_EQ(beats(), (std::vector<std::uint32_t>{8, 5, 7}));
  look(1);
  EXPECT_EQ(beats(), (std::vector<std::uint32_t>{8, 12, 7}));
  // It goes on, and the others leave.
  look(0), look(1);
  EXPECT_EQ(beats(), (std::vector<std::uint32_t>{13, 12, 7}));
  node[1].leave(), node[2].leave();
  look(0);
  EXPECT_EQ(beats(), std::vector<std::uint32_t>{15});
  node[0].leave();
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(Boards, TheLastTakesTheFileAway) {
  publish(0, true), publish(1, true);
  HeartbeatBoard(folder_, "other", {0, 0, 2}).publish(*all_waiting(1)[0], true);
  EXPECT_EQ(first_node(2).size(), 2u);
  boards_[0].leave();
  ASSERT_EQ(first_node(2).size(), 1u);
  EXPECT_EQ(first_node(2)[0].rank, 1);
  EXPECT_EQ(all(2).size(), 1u);  // another run's is not looked at
  boards_[1].leave();
  EXPECT_EQ(names(), std::vector<std::string>{"beats-00000-other"});
}

TEST_F(Boards, HalfOfOneIsNone) {
  publish(0, true), publish(1, true);
  const std::string path = folder_ + "/beats-00000-run";
  const auto put = [&](std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at).put('x');
  };
  put(64 * 256 + 40);  // in the text of rank 0
  auto told = all(2);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_FALSE(told[0].told);
  EXPECT_TRUE(told[1].told);
  put(64 + 20);  // in the beat of rank 1
  told = all(2);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].rank, 0);
  for (const std::uintmax_t bytes : {64 * 256, 70, 64, 10, 0}) {
    std::filesystem::resize_file(path, bytes);
    EXPECT_EQ(first_node(2).size(), bytes >= 64 ? 1u : 0u) << bytes;
  }
}

TEST_F(Boards, ALongPositionLosesWhatIsInFlight) {
  RankStatus p = *all_waiting(4)[0];
  while (p.calls.size() < 200) p.calls.push_back(p.calls.front());
  boards_[0].publish(p, true);
  const auto told = all(0);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].told);
  EXPECT_EQ(told[0].groups.size(), 1u);
  EXPECT_GT(told[0].calls.size(), 16u);
  EXPECT_LT(told[0].calls.size(), 200u);
}

// One that was stopped while it got on has told no groups: the others wait for it.
TEST_F(Boards, WhoHasNotToldWhereIsLate) {
  for (int r = 0; r < 4; ++r) publish(r, r != 2);
  const auto reports = boards_[0].reports(hosts_, 5);  // rank 4 has told nothing
  const std::string text = describe_hang(*reports, 5);
  EXPECT_TRUE(text.starts_with("rank 2 (host node2) has not entered all_reduce #3"))
      << text;
  EXPECT_NE(text.find("rank 2 (host node2): 'training step', 5 steps done, 2.5 s without "
                      "progress, stopped while it got on"),
            std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with("\n  rank 4: has told no status")) << text;
}

// More ranks than all of whose statuses are read.
constexpr int many = 1000;

class Counted final : public HangReports {
 public:
  explicit Counted(const Statuses& statuses) : statuses_(statuses) {}
  int ranks() const override { return static_cast<int>(statuses_.size()); }
  StatusSummary summary(int rank) const override { return summary_of(*at(rank)); }
  std::string host(int) const override { return "node"; }
  std::optional<RankStatus> status(int rank) const override {
    ++reads;
    return at(rank);
  }
  mutable int reads = 0;

 private:
  const std::optional<RankStatus>& at(int rank) const {
    return statuses_[static_cast<std::size_t>(rank)];
  }
  const Statuses& statuses_;
};

TEST(Hang, OfManyRanksFewPositionsAreRead) {
  auto statuses = all_waiting(many);
  statuses[777]->groups[0].entered = 2;
  statuses[777]->calls.clear();
  statuses[777]->waiting = false;
  const Counted reports(statuses);
  EXPECT_TRUE(describe_hang(reports, 0).starts_with("rank 777 (host node) has not"));
  EXPECT_LE(reports.reads, 2);
  // It waits elsewhere, and so do all that wait for nobody: it is the only one in doubt.
  statuses[777]->waiting = true;
  statuses[777]->calls = {
      {"tensor", RankList::line(776, 2), 1, "receive", "fp32[8]", 32, true}};
  const Counted elsewhere(statuses);
  EXPECT_TRUE(describe_hang(elsewhere, 0).starts_with("rank 777 (host node) has not"));
  EXPECT_LE(elsewhere.reads, 8);
}

TEST(Hang, OfManyRanksWhoWantsSomethingElse) {
  auto statuses = all_waiting(many);
  statuses[5]->calls[0].tensor = "fp32[9]";
  const Counted reports(statuses);
  EXPECT_TRUE(describe_hang(reports, 0)
                  .starts_with("out of step: rank 5 (host node) in all_reduce #3 fp32[9] "
                               "(32 bytes) on axis 'data' "
                               "of ranks 0-999; rank 0 (host node)"))
      << describe_hang(reports, 0);
  EXPECT_LE(reports.reads, 8);
}

}  // namespace
}  // namespace trireme::comm
