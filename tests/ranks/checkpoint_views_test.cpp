// Views of whole tensors: made behind a checkpoint, which is whole without them.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_views.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "io/checkpoint_view_queue.hpp"
#include "io/checkpoint_writer.hpp"
#include "io/files.hpp"
#include "io/hdf5_driver.hpp"
#include "io/run_lock.hpp"
#include "support/checkpoint_tensors.hpp"
#include "support/listed_views.hpp"
#include "support/written_checkpoint.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;
using test::fake_info;
using test::Memory;
using test::world;

constexpr std::int64_t limit = 1 << 24;

// Checkpoints of steps 1 and 2 with views.
class Views : public testing::Test {
 protected:
  Views() {
    for (const std::int64_t step : {1, 2}) {
      Memory memory;
      test::write_checkpoint(world(), folder_.path(), fake_info(step),
                             test::fake_boxes(memory, 1, 1), 0);
    }
  }
  std::string path(const std::string& name) const { return step_ + "/" + name; }
  std::string get(const std::string& name) const { return read_text(path(name), limit); }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary | std::ios::trunc) << text;
  }
  void remove_views() const {
    fs::remove(path(whole_name));
    fs::remove(path(views_digest_name));
  }
  std::string difference() const { return why_views_differ(Directory(step_)); }
  // Whether the checkpoint is read and compared as it was written.
  void expect_whole() const { EXPECT_EQ(CheckpointReader(step_).info().step, 2); }
  std::vector<std::string> names() const { return Directory(step_).names(); }

  test::SharedFolder folder_;
  std::string step_ = folder_.path() + "/step-00000002";
};

TEST_F(Views, AreMadeAgainToTheByte) {
  const auto before = names();
  const std::string views = get(whole_name), digests = get(views_digest_name);
  EXPECT_EQ(difference(), "");
  EXPECT_FALSE(lists_views(read_manifest(step_)));
  remove_views();
  expect_whole();
  EXPECT_TRUE(make_views(Directory(step_)));
  EXPECT_EQ(names(), before);
  EXPECT_EQ(get(whole_name), views);
  EXPECT_EQ(get(views_digest_name), digests);
}

// Who reads the checkpoint does not see damage of the views; who compares them does.
TEST_F(Views, EachFlippedBitIsFoundAndStopsNoReader) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::string name = i % 2 == 0 ? whole_name : views_digest_name;
    const std::string before = get(name);
    std::string text = before;
    const auto bit = random() % (text.size() * 8);
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    put(name, text);
    EXPECT_NE(difference().find(whole_name), std::string::npos) << name << " bit " << bit;
    put(name, before);
  }
  put(whole_name, "");
  expect_whole();
  EXPECT_TRUE(make_views(Directory(step_)));
  EXPECT_EQ(difference(), "");
}

TEST_F(Views, OfAnotherCheckpointAreFound) {
  for (const char* name : {whole_name, views_digest_name})
    fs::copy_file(folder_.path() + "/step-00000001/" + name, path(name),
                  fs::copy_options::overwrite_existing);
  EXPECT_NE(difference().find("of another checkpoint"), std::string::npos)
      << difference();
  fs::remove(path(views_digest_name));
  EXPECT_NE(difference().find(views_digest_name), std::string::npos) << difference();
}

TEST_F(Views, ThatTheIndexListsAreNotMadeAgain) {
  test::list_views(step_);
  const std::string before = get(whole_name);
  EXPECT_TRUE(lists_views(read_manifest(step_)));
  EXPECT_THROW(make_views(Directory(step_)), Error);
  EXPECT_EQ(get(whole_name), before);
  expect_whole();
}

TEST_F(Views, StopBetweenTensorsAndLeaveNothing) {
  remove_views();
  const auto before = names();
  for (int tensors = 0; tensors < 3; ++tensors) {
    int asked = 0;
    EXPECT_FALSE(make_views(Directory(step_), [&] { return asked++ == tensors; }));
    EXPECT_EQ(asked, tensors + 1);
    EXPECT_EQ(names(), before);
  }
}

// The file of a process that makes them stays.
TEST_F(Views, AreMadeByOneProcessAtATime) {
  remove_views();
  put(".checkpoint.h5.tmp", "of another process");
  const RunLock other(step_);
  EXPECT_THROW(make_views(Directory(step_)), Error);
  EXPECT_EQ(get(".checkpoint.h5.tmp"), "of another process");
}

// Once that is done nobody writes to its folder.
TEST_F(Views, OfACheckpointThatLeavesAreDropped) {
  for (const std::int64_t step : {1, 2}) {
    step_ = folder_.path() + "/" + step_name(step);
    remove_views();
  }
  std::atomic<bool> begun = false, ended = false;
  const auto slow = [&](const Directory& folder, const std::function<bool()>& stops) {
    if (folder.path() != step_) return make_views(folder, stops);
    begun = true;
    while (!stops()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ended = true;
    return false;
  };
  ViewQueue queue(folder_.path(), slow);
  for (const char* name : {"step-00000001", "step-00000002", "step-00000002"})
    queue.add(name);
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  queue.drop_if([](const std::string& name) { return name == "step-00000002"; });
  EXPECT_TRUE(ended);
  queue.finish();
  EXPECT_TRUE(fs::exists(folder_.path() + "/step-00000001/" + whole_name));
}

TEST_F(Views, ALinkIsLeftAlone) {
  remove_views();
  const std::string away = folder_.path() + "/away";
  fs::rename(step_, away);
  fs::create_symlink(away, step_);
  ViewQueue queue(folder_.path());
  queue.add("step-00000002");
  queue.add("step-00000077");  // nor is what is not there made
  queue.finish();
  EXPECT_FALSE(fs::exists(away + "/" + whole_name));
}

// What another run left is made by the next, behind what it does.
TEST_F(Views, AreMadeByTheNextStart) {
  const std::string views = get(whole_name);
  remove_views();
  CheckpointWriter writer(world(), folder_.path(), {});
  writer.add_views(2);
  writer.finish_views();
  EXPECT_EQ(get(whole_name), views);
  remove_views();
  Memory memory;
  writer.begin(fake_info(2), test::fake_boxes(memory, 1, 1), true);  // it stands already
  writer.finish();
  writer.finish_views();
  EXPECT_EQ(get(whole_name), views);
}

// A run that is stopped has no time for them.
TEST_F(Views, AreLeftToTheNextStart) {
  remove_views();
  CheckpointWriter writer(world(), folder_.path(), {});
  {
    std::optional<RunLock> other(step_);
    writer.add_views(2);
    std::thread release([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      other.reset();
    });
    writer.finish_views(0);
    release.join();
  }
  EXPECT_FALSE(fs::exists(path(whole_name)));
  writer.add_views(2);
  writer.finish_views();
  EXPECT_EQ(difference(), "");
}

// Nothing is written into a folder that is being removed.
TEST_F(Views, OldCheckpointsGoWhenTheirsHaveEnded) {
  const std::string first = folder_.path() + "/step-00000001";
  fs::remove(first + "/" + whole_name);
  Retention retention;
  retention.keep = 1;
  CheckpointWriter writer(world(), folder_.path(), retention);
  Memory memory;
  {
    const Hdf5Lock lock;  // they do not come to their end meanwhile
    writer.add_views(1);
    while (!fs::exists(first + "/.checkpoint.h5.tmp"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    writer.begin(fake_info(2), test::fake_boxes(memory, 1, 1), false);  // it stands
    for (int i = 0; i < 100; ++i) {
      writer.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_TRUE(fs::exists(folder_.path() + "/.trash-step-00000001/.checkpoint.h5.tmp"));
  }
  writer.finish();
  writer.finish_views();
  EXPECT_EQ(Directory(folder_.path()).names(),
            (std::vector<std::string>{"latest", "step-00000002"}));
}

// Each save removes the checkpoint before it, whose views are under way: there are many.
TEST_F(Views, OldCheckpointsGoWhileTheirsAreMade) {
  constexpr int tensors = 500;
  std::vector<float> values(tensors);
  std::vector<TensorBox> boxes;
  for (int i = 0; i < tensors; ++i)
    boxes.push_back({format("model/{}", i), {1}, {0}, {&values[i], DType::f32, {1}}});
  Retention retention;
  retention.keep = 1;
  CheckpointWriter writer(world(), folder_.path(), retention);
  for (std::int64_t step = 3; step < 12; ++step) {
    writer.begin(fake_info(step), boxes, step % 2 == 0);
    writer.finish();
    EXPECT_EQ(Directory(folder_.path()).names(),
              (std::vector<std::string>{"latest", step_name(step)}));
  }
  writer.finish_views();
  step_ = folder_.path() + "/step-00000011";
  EXPECT_EQ(difference(), "");
}

}  // namespace
}  // namespace trireme::io
