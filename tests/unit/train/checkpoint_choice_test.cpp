// Which checkpoint a run goes on from: the newest whole one, in a folder that is mended.
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_choice.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "io/checkpoint_folder.hpp"
#include "io/shard_copies.hpp"
#include "support/checkpoint_tensors.hpp"
#include "support/written_checkpoint.hpp"
#include "train/node_places.hpp"
#include "train/partner_copies.hpp"
#include "train/shard_holders.hpp"
#include "unit/config/deck_sample.hpp"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using test::SharedFolder;
using test::world;

// A folder with checkpoints of steps 1 and 2.
class Folder {
 public:
  Folder() {
    test::Memory memory;
    const auto boxes = test::fake_boxes(memory, 1, 1);
    for (const std::int64_t step : {1, 2})
      test::write_checkpoint(world(), path(), test::fake_info(step), boxes, 0);
  }
  const std::string& path() const { return folder_.path(); }
  std::string step(std::int64_t number) const {
    return path() + "/" + io::step_name(number);
  }
  std::string shard(std::int64_t number) const {
    return step(number) + "/shard-00000.h5";
  }
  // Changes one byte in the middle of a shard, whose size stays.
  void damage(std::int64_t number) const {
    std::fstream file(shard(number), std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(fs::file_size(shard(number)) / 2);
    char byte = 0;
    file.seekg(middle);
    file.get(byte);
    file.seekp(middle);
    file.put(static_cast<char>(byte ^ 1));
    ASSERT_TRUE(file.good());
  }
  std::string latest() const { return io::latest_target(path()); }

 private:
  SharedFolder folder_;
};

ChosenCheckpoint newest(const std::string& directory, const FindElsewhere& find = {}) {
  return newest_whole_checkpoint(world(), directory,
                                 checkpoint_steps(world(), directory, Repair::yes), find);
}

TEST(CheckpointChoice, TheNewestWholeOne) {
  const Folder folder;
  EXPECT_EQ(newest(folder.path()).path, folder.step(2));
  EXPECT_EQ(folder.latest(), io::step_name(2));
  folder.damage(2);
  EXPECT_EQ(newest(folder.path()).path, folder.step(1));
  EXPECT_EQ(folder.latest(), io::step_name(1));
  EXPECT_TRUE(fs::exists(folder.shard(2))) << "what is damaged is left for a person";
}

TEST(CheckpointChoice, NoneIsNoError) {
  const SharedFolder empty;
  EXPECT_EQ(newest(empty.path()).path, "");
  EXPECT_EQ(newest(empty.path() + "/not-there").path, "");
}

TEST(CheckpointChoice, AllDamagedIsAnError) {
  const Folder folder;
  folder.damage(1);
  folder.damage(2);
  const auto [text, status] = test::error_of([&] { newest(folder.path()); });
  EXPECT_EQ(status, Status::bad_content);
  test::expect_contains(text, "no checkpoint of '" + folder.path() + "' is whole");
  test::expect_contains(text, folder.step(2));
}

// No file can be opened while it lives.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int free = ::dup(0);
    ::close(free);
    const rlimit now{static_cast<rlim_t>(free), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

// It may be whole: to go back would lose steps, and to write it anew a whole checkpoint.
TEST(CheckpointChoice, WhatCannotBeOpenedIsNotDamaged) {
  const Folder folder;
  const auto steps = checkpoint_steps(world(), folder.path(), Repair::yes);
  const auto [text, status] = test::error_of([&] {
    const NoMoreFiles limit;
    newest_whole_checkpoint(world(), folder.path(), steps);
  });
  EXPECT_EQ(status, Status::missing_input);
  test::expect_contains(text, folder.step(2));
  test::expect_contains(text, "may be whole");
  EXPECT_EQ(folder.latest(), io::step_name(2));
  io::CheckpointReader reader(folder.step(2), io::no_digests);  // opens no shard yet
  const auto [why, kind] = test::error_of([&] {
    const NoMoreFiles limit;
    reader.damage(0, 1);
  });
  EXPECT_EQ(kind, Status::io);
  test::expect_contains(why, "cannot be opened");
  // Nor is a folder that cannot be listed one without checkpoints.
  const Directory open(folder.path());
  const auto [reason, error] = test::error_of([&] {
    const NoMoreFiles limit;
    io::restore_set_aside(open);
  });
  EXPECT_EQ(error, Status::io);
  test::expect_contains(reason, "cannot be read");
}

TEST(CheckpointChoice, WhatACrashLeftIsMended) {
  const Folder folder;
  const std::string unfinished = folder.path() + "/" + io::temporary_name(3);
  fs::create_directory(unfinished);
  io::point_latest(folder.path(), io::step_name(1));
  EXPECT_EQ(newest(folder.path()).path, folder.step(2));
  EXPECT_FALSE(fs::exists(unfinished));
  EXPECT_EQ(folder.latest(), io::step_name(2));
}

// What stands elsewhere has its place between those of the folder.
TEST(CheckpointChoice, DamageDoesNotHideWhatIsElsewhere) {
  const Folder folder, other;
  std::vector<std::pair<std::int64_t, std::int64_t>> asked;
  std::int64_t has = 0;  // the step that is elsewhere; 0: none
  const auto chosen = [&] {
    asked.clear();
    return newest(folder.path(), [&](std::int64_t after, std::int64_t last) {
      asked.emplace_back(after, last);
      ChosenCheckpoint found;
      if (has <= after || has > last) return found;
      found.path = "elsewhere";
      found.reader = std::make_shared<io::CheckpointReader>(other.step(1));
      found.of_copies = true;
      return found;
    });
  };
  const auto ever = std::numeric_limits<std::int64_t>::max();
  using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;
  has = 3;
  EXPECT_EQ(chosen().path, "elsewhere") << "newer than all";
  has = 2;
  EXPECT_EQ(chosen().path, folder.step(2)) << "the disk wins where it is as new";
  EXPECT_EQ(asked, (Ranges{{2, ever}}));
  folder.damage(2);
  EXPECT_EQ(chosen().path, "elsewhere") << "of the same step as what is damaged";
  EXPECT_EQ(asked, (Ranges{{2, ever}, {1, 2}}));
  has = 0;
  EXPECT_EQ(chosen().path, folder.step(1));
  folder.damage(1);
  has = 1;
  EXPECT_EQ(chosen().path, "elsewhere") << "nothing else is whole";
  EXPECT_EQ(asked, (Ranges{{2, ever}, {1, 2}, {0, 1}}));
  EXPECT_EQ(folder.latest(), io::step_name(2)) << "which has all its files";
}

// The same command goes on after a stop, also where it names what the run began from.
TEST(CheckpointChoice, ARunThatBeganElsewhereGoesOnFromItsOwnLaterSteps) {
  const SharedFolder run;
  const Folder begun_from;
  const std::string own = run.path() + "/checkpoints";
  test::Memory memory;
  const auto boxes = test::fake_boxes(memory, 1, 1);
  config::RunConfig config;
  config.run.directory = run.path();
  config.checkpoint.load_on_mesh_change = true;
  config.checkpoint.resume = begun_from.step(2);
  const auto path = [&] { return chosen_checkpoint(world(), config, Repair::yes).path; };
  EXPECT_EQ(path(), begun_from.step(2)) << "there is nothing of its own yet";
  for (const std::int64_t step : {3, 4})
    test::write_checkpoint(world(), own, test::fake_info(step), boxes, 0);
  EXPECT_EQ(path(), own + "/" + io::step_name(4));
  for (const std::string& name :
       {own + "/" + io::step_name(3), run.path() + "/earlier"}) {
    if (world().rank() == 0 && !fs::exists(name))
      fs::create_directory_symlink(own + "/" + io::step_name(3), name);
    world().barrier();
    config.checkpoint.resume = name;
    const auto [text, status] = test::error_of(path);
    EXPECT_EQ(status, Status::cannot_create) << name;
    test::expect_contains(text, "holds later steps of this run");
  }
}

// Also where what is its own lies in the memory of nodes alone: a node was lost before
// its first checkpoint.
TEST(CheckpointChoice, ARunThatBeganElsewhereGoesOnFromItsOwnLaterCopies) {
  const SharedFolder run;
  const Folder begun_from, copies;
  config::RunConfig config;
  config.run.directory = run.path();
  config.checkpoint.load_on_mesh_change = true;
  config.checkpoint.resume = begun_from.step(1);
  std::int64_t has = 0, asked_after = 0;
  const auto chosen = [&] {
    asked_after = -1;
    return chosen_checkpoint(
        world(), config, Repair::yes, [&](std::int64_t after, std::int64_t last) {
          if (asked_after < 0) asked_after = after;
          ChosenCheckpoint found;
          if (has <= after || has > last) return found;
          found.path = "elsewhere";
          found.reader = std::make_shared<io::CheckpointReader>(copies.step(has));
          found.of_copies = true;
          return found;
        });
  };
  EXPECT_EQ(chosen().path, begun_from.step(1)) << "there are none";
  EXPECT_EQ(asked_after, 1);
  EXPECT_TRUE(chosen().of_other);
  has = 2;
  EXPECT_EQ(chosen().path, "elsewhere");
  EXPECT_TRUE(chosen().of_copies);
  EXPECT_FALSE(chosen().of_other) << "its metrics go on";
  has = 1;
  EXPECT_EQ(chosen().path, begun_from.step(1)) << "not from before its beginning";
  // Who names an own checkpoint means that one.
  test::Memory memory;
  test::write_checkpoint(world(), run.path() + "/checkpoints", test::fake_info(1),
                         test::fake_boxes(memory, 1, 1), 0);
  has = 2;
  config.checkpoint.resume = run.path() + "/checkpoints/" + io::step_name(1);
  EXPECT_EQ(chosen().path, config.checkpoint.resume);
  EXPECT_EQ(asked_after, -1);
}

// For a start from elsewhere names are enough: `latest` is not what is loaded.
TEST(CheckpointChoice, LatestIsMadeToPointAtTheNewestWithAllItsFiles) {
  const Folder folder;
  io::point_latest(folder.path(), io::step_name(1));
  repair_latest(world(), folder.path(),
                checkpoint_steps(world(), folder.path(), Repair::yes));
  EXPECT_EQ(folder.latest(), io::step_name(2));
  fs::remove(folder.shard(2));
  repair_latest(world(), folder.path(),
                checkpoint_steps(world(), folder.path(), Repair::yes));
  EXPECT_EQ(folder.latest(), io::step_name(1));
}

TEST(ShardHolders, KeepsNeighboursAsOneRun) {
  // As on 1,250 nodes of 8 that keep the shards of the node before them too.
  std::vector<int> holders(10000);
  std::iota(holders.begin(), holders.end(), 0);
  std::iota(holders.end() - 8, holders.end(), 0);
  const ShardHolders whole(holders);
  EXPECT_EQ(whole.runs(), 2u);
  const ShardHolders read = ShardHolders::from_text(whole.text());
  EXPECT_EQ(read.shards(), 10000);
  for (const int shard : {0, 5, 9991, 9992, 9999})
    EXPECT_EQ(read.of(shard), holders[static_cast<std::size_t>(shard)]) << shard;
  EXPECT_EQ(read.held_by(3), (std::vector<int>{3, 9995}));
  EXPECT_EQ(read.held_by(100), std::vector<int>{100});
  EXPECT_TRUE(read.held_by(9995).empty());
  // In any order.
  const std::vector<int> mixed = {4, 4, 0, 1, 7, 2};
  const ShardHolders odd = ShardHolders::from_text(ShardHolders(mixed).text());
  for (int shard = 0; shard < 6; ++shard)
    EXPECT_EQ(odd.of(shard), mixed[static_cast<std::size_t>(shard)]);
  EXPECT_EQ(odd.held_by(4), (std::vector<int>{0, 1}));
  EXPECT_EQ(ShardHolders::from_text(ShardHolders().text()).shards(), 0);
  for (const char* const wrong :
       {"", "x", "3", "3 1 0", "3 0 -1", "3 0 0 0 1", "3 0 0 5 0"})
    EXPECT_THROW(ShardHolders::from_text(wrong), Error) << wrong;
}

// Copies in the memory of nodes: whose copy a rank keeps, and which copies count.
// What everyone needs of one shard, as norms on another mesh: in log2 of the ranks'
// rounds.
TEST(ShardHolders, WhoReceivesAShardHandsItOn) {
  std::vector<int> ranks(100);
  for (int i = 0; i < 100; ++i) ranks[static_cast<std::size_t>(i)] = 2 * i;
  const std::vector<Transfer> all =
      in_rounds(ShardHolders(std::vector<int>{7, 8}), {{0, ranks}, {1, {3}}});
  ASSERT_EQ(all.size(), 101u);
  std::map<int, int> rounds = {{7, 0}};  // of each rank that has shard 0: since when
  for (const Transfer& move : all) {
    if (move.shard == 1) {
      EXPECT_EQ(move.from, 8);
      EXPECT_EQ(move.to, 3);
      continue;
    }
    ASSERT_TRUE(rounds.contains(move.from)) << move.from;
    EXPECT_FALSE(rounds.contains(move.to)) << move.to;
    rounds[move.to] = ++rounds[move.from];  // one at a time
    EXPECT_LE(rounds[move.to], 7);
  }
  EXPECT_EQ(rounds.size(), 101u);
  EXPECT_TRUE(in_rounds(ShardHolders(std::vector<int>{0}), {}).empty());
}

TEST(PartnerCopies, ThePartnerIsOnAnotherNode) {
  EXPECT_EQ(partner_shift({0, 0, 1, 1}), 2);
  EXPECT_EQ(partner_shift({0, 1, 0, 1}), 1) << "nodes in turns";
  EXPECT_EQ(partner_shift({0, 0, 0, 1, 1, 1, 2, 2, 2}), 3);
  EXPECT_EQ(partner_shift({0, 0, 0, 1, 1, 2}), 3) << "nodes of different size";
  EXPECT_EQ(partner_shift({0, 0, 0, 1}), 0) << "nobody can take what the first has";
  EXPECT_EQ(partner_shift({0, 0}), 0);
  EXPECT_EQ(partner_shift({0}), 0);
}

TEST(PartnerCopies, OnlyWhatIsWholeCounts) {
  const SharedFolder folder;
  const io::ShardCopies copies(folder.path() + "/copies");
  copies.make();
  test::Memory memory;
  const auto boxes = test::fake_boxes(memory, 1, 1);
  for (const std::int64_t step : {2, 4, 6})
    copies.write(test::fake_info(step), boxes, 0, 1);
  EXPECT_EQ(copies.steps(), (std::vector<std::int64_t>{2, 4, 6}));
  EXPECT_EQ(copies.check(4, 0).info.step, 4);
  copies.remove_before(6, 2);
  EXPECT_EQ(copies.steps(), (std::vector<std::int64_t>{2, 6}));
  // One byte anywhere is found.
  for (const char* end : {".h5", ".index", ".json"}) {
    copies.write(test::fake_info(6), boxes, 0, 1);
    copies.check(6, 0);
    const std::string path = copies.folder_of(6) + "/shard-00000" + end;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(path) / 3));
    file.put('\x7f');
    file.close();
    EXPECT_THROW(copies.check(6, 0), Error) << end;
  }
  // The text that comes last was not there yet when the rank died.
  copies.write(test::fake_info(6), boxes, 0, 1);
  EXPECT_EQ(copies.shards(6), std::vector<int>{0});
  fs::remove(copies.folder_of(6) + "/shard-00000.json");
  EXPECT_TRUE(copies.shards(6).empty());
  // Nor is there a word for a shard while another comes in its place.
  copies.write(test::fake_info(6), boxes, 0, 1);
  copies.create_file(6, 0, 1, 8);
  EXPECT_TRUE(copies.shards(6).empty());
  copies.remove_all();
  EXPECT_FALSE(fs::exists(copies.path()));
}

TEST(PartnerCopies, AVariableOfEachNode) {
  ::setenv("TRIREME_TEST_NODE", "/memory", 1);
  EXPECT_EQ(folder_for_copies("/dev/shm"), "/dev/shm");
  EXPECT_EQ(folder_for_copies("$TRIREME_TEST_NODE"), "/memory");
  EXPECT_EQ(folder_for_copies("$TRIREME_TEST_NODE/a/b"), "/memory/a/b");
  ::setenv("TRIREME_TEST_NODE", "memory", 1);
  EXPECT_THROW(folder_for_copies("$TRIREME_TEST_NODE"), Error) << "not from '/' on";
  ::unsetenv("TRIREME_TEST_NODE");
  EXPECT_THROW(folder_for_copies("$TRIREME_TEST_NODE"), Error);
}

}  // namespace
}  // namespace trireme::train
