// Which checkpoint a run goes on from: the newest whole one, in a folder that is mended.
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_choice.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "io/checkpoint_folder.hpp"
#include "support/checkpoint_tensors.hpp"
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
      io::write_checkpoint(world(), path(), test::fake_info(step), boxes, 0);
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

TEST(CheckpointChoice, TheNewestWholeOne) {
  const Folder folder;
  EXPECT_EQ(newest_whole_checkpoint(world(), folder.path()).path, folder.step(2));
  EXPECT_EQ(folder.latest(), io::step_name(2));
  folder.damage(2);
  EXPECT_EQ(newest_whole_checkpoint(world(), folder.path()).path, folder.step(1));
  EXPECT_EQ(folder.latest(), io::step_name(1));
  EXPECT_TRUE(fs::exists(folder.shard(2))) << "what is damaged is left for a person";
}

TEST(CheckpointChoice, NoneIsNoError) {
  const SharedFolder empty;
  EXPECT_EQ(newest_whole_checkpoint(world(), empty.path()).path, "");
  EXPECT_EQ(newest_whole_checkpoint(world(), empty.path() + "/not-there").path, "");
}

TEST(CheckpointChoice, AllDamagedIsAnError) {
  const Folder folder;
  folder.damage(1);
  folder.damage(2);
  const auto [text, status] =
      test::error_of([&] { newest_whole_checkpoint(world(), folder.path()); });
  EXPECT_EQ(status, Status::bad_content);
  test::expect_contains(text, "no checkpoint of '" + folder.path() + "' is whole");
  test::expect_contains(text, folder.step(2));
}

TEST(CheckpointChoice, WhatACrashLeftIsMended) {
  const Folder folder;
  const std::string unfinished = folder.path() + "/" + io::temporary_name(3);
  fs::create_directory(unfinished);
  io::point_latest(folder.path(), io::step_name(1));
  EXPECT_EQ(newest_whole_checkpoint(world(), folder.path()).path, folder.step(2));
  EXPECT_FALSE(fs::exists(unfinished));
  EXPECT_EQ(folder.latest(), io::step_name(2));
}

// For a start from elsewhere sizes are enough: `latest` is not what is loaded.
TEST(CheckpointChoice, TidyingPointsAtTheNewestWithAllItsFiles) {
  const Folder folder;
  io::point_latest(folder.path(), io::step_name(1));
  tidy_checkpoints(world(), folder.path());
  EXPECT_EQ(folder.latest(), io::step_name(2));
  fs::remove(folder.shard(2));
  tidy_checkpoints(world(), folder.path());
  EXPECT_EQ(folder.latest(), io::step_name(1));
}

}  // namespace
}  // namespace trireme::train
