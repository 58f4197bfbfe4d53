// Checkpoints in the background: the copy that is written, what fails, what is read.
// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint_writer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "comm/trace.hpp"
#include "io/checkpoint_find.hpp"
#include "io/checkpoint_folder.hpp"
#include "io/checkpoint_removal.hpp"
#include "io/checkpoint_snapshot.hpp"
#include "io/checkpoint_verify.hpp"
#include "io/files.hpp"
#include "io/hdf5_file.hpp"
#include "support/checkpoint_tensors.hpp"
#include "support/io_faults.h"
#include "support/written_checkpoint.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;
using test::fake_info;
using test::FakeTensor;
using test::Memory;
using test::SharedFolder;
using test::world;

struct Model {
  Memory memory;
  std::vector<TensorBox> boxes = test::fake_boxes(memory, world().size(), 1, 0);
};

void overwrite(const std::vector<TensorBox>& boxes) {
  for (const auto& box : boxes) std::memset(box.data.raw(), 0xa5, box.data.bytes());
}

void expect_fake(const std::string& directory) {
  const CheckpointReader reader(directory);
  for (const auto& tensor : test::fake_model()) {
    Memory memory;
    const auto right = test::make_box(memory, tensor, 1, 1, 0);
    const auto read = test::make_view(memory, tensor.dtype, tensor.shape, 0);
    reader.read(tensor.path, tensor.shape, right.begin, read);
    EXPECT_EQ(std::memcmp(read.raw(), right.data.raw(), read.bytes()), 0) << tensor.path;
  }
}

TEST(CheckpointWriter, WhatIsWrittenIsTheCopy) {
  const SharedFolder folder;
  CheckpointWriter writer(world(), folder.path(), {});
  Model model;
  CheckpointSnapshot snapshot(model.boxes);
  const std::int64_t before = memory_allocations();
  for (std::int64_t step = 1; step <= 3; ++step) {
    Model now;
    // Every other box may be copied later, by the thread.
    for (std::size_t i = 0; i < now.boxes.size(); i += 2)
      now.boxes[i].until_update = true;
    auto copies = snapshot.begin(now.boxes);
    for (const auto& box : now.boxes)
      if (!box.until_update) overwrite({box});
    writer.begin(fake_info(step), std::move(copies.boxes), true, std::move(copies.later));
    snapshot.wait();
    overwrite(now.boxes);
    EXPECT_FALSE(writer.idle());
    const auto done = writer.finish();
    ASSERT_TRUE(done.has_value());
    EXPECT_EQ(done->step, step);
    EXPECT_TRUE(writer.idle());
    EXPECT_FALSE(writer.finish().has_value());
    expect_fake(folder.path() + "/" + step_name(step));
  }
  EXPECT_EQ(memory_allocations(), before);
}

TEST(CheckpointSnapshot, NobodyWaitsForACopyThatWillNotBeMade) {
  Model model;
  for (auto& box : model.boxes) box.until_update = true;
  CheckpointSnapshot snapshot(model.boxes);
  snapshot.wait();  // none was begun
  { auto dropped = snapshot.begin(model.boxes); }
  snapshot.wait();
  auto copies = snapshot.begin(model.boxes);
  std::thread([later = std::move(copies.later)] { later(); }).join();
  snapshot.wait();
}

TEST(CheckpointWriter, PollsToTheEndAndBeginsOnlyThen) {
  const SharedFolder folder;
  CheckpointWriter writer(world(), folder.path(), {});
  Model model;
  writer.begin(fake_info(1), model.boxes, true);
  EXPECT_THROW(writer.begin(fake_info(2), model.boxes, true), Error);
  std::optional<WrittenCheckpoint> done;
  while (!done) done = writer.poll();
  EXPECT_EQ(done->step, 1);
  EXPECT_FALSE(writer.poll().has_value());
  EXPECT_EQ(find_checkpoint(folder.path()), folder.path() + "/step-00000001");
}

// Without the background, too, the other ranks ask again and again; to the watchdog that
// is no progress.
TEST(CheckpointWriter, ASlowDiskIsNoHang) {
  const SharedFolder folder;
  CheckpointWriter writer(world(), folder.path(), {});
  Model model;
  const bool is_last = world().rank() + 1 == world().size();
  std::int64_t before = 0, after = 0;
  world().set_timeout(1);
  writer.begin(fake_info(1), model.boxes, false, [&] {
    before = comm::trace().progress();
    if (is_last) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    after = comm::trace().progress();
  });
  const auto done = writer.wait_for_name();
  world().set_timeout(0);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->step, 1);
  EXPECT_EQ(before, after);
  writer.finish();
  expect_fake(folder.path() + "/" + step_name(1));
}

// The main thread learns of it at its next call, and may go on.
TEST(CheckpointWriter, AFailureInTheThreadComesOutOnEveryRank) {
  const SharedFolder folder;
  const std::string directory = folder.path() + "/c";
  CheckpointWriter writer(world(), directory, {});
  Model model;
  writer.begin(fake_info(1), model.boxes, true);
  writer.finish();
  const int rank = world().size() - 1;
  const std::string shard = directory + "/" + temporary_name(2) + "/shard";
  if (world().rank() == rank) io_faults_arm(shard.c_str(), io_fault_after, 2, ENOSPC);
  Model next;
  writer.begin(fake_info(2), next.boxes, true);
  try {
    while (!writer.idle()) writer.poll();
    ADD_FAILURE() << "nothing failed";
  } catch (const comm::Agreed& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_NE(std::string(error.what()).find("shard-0000"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("No space"), std::string::npos)
        << error.what();
  }
  if (world().rank() == rank) io_faults_disarm();
  world().barrier();
  EXPECT_FALSE(fs::exists(directory + "/" + temporary_name(2)));
  EXPECT_EQ(CheckpointReader(directory).info().step, 1);
  world().barrier();
  writer.begin(fake_info(2), next.boxes, true);
  writer.finish();
  EXPECT_EQ(CheckpointReader(directory).info().step, 2);
}

// Of `rows` parts rank r writes part r - first, if there is one: the others nothing.
std::vector<TensorBox> parts(Memory& memory, int rows, int first) {
  const int part = world().rank() - first;
  if (part >= 0 && part < rows) {
    std::vector<TensorBox> boxes;
    for (const auto& tensor : test::fake_model())
      boxes.push_back(test::make_box(memory, tensor, rows, 1, part));
    return boxes;
  }
  return {};
}

std::vector<std::string> shards_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const std::string& name : names_in(directory))
    if (name.starts_with("shard-")) names.push_back(name);
  return names;
}

// Whole tensors as HDF5's tools see them.
void expect_whole_views(const std::string& directory) {
  const Hdf5File whole(directory + "/" + whole_name, Hdf5File::Mode::read);
  for (const auto& tensor : test::fake_model()) {
    Memory memory;
    const auto right = test::make_box(memory, tensor, 1, 1, 0);
    std::vector<std::byte> read(right.data.bytes());
    for (const BoxEntry& box : whole.boxes(tensor.path))
      EXPECT_TRUE(fs::exists(directory + "/" + box.file)) << box.file;
    PlainFiles files(directory);
    const TensorView out(read.data(), tensor.dtype, tensor.shape);
    read_boxes(files, whole.boxes(tensor.path), tensor.dtype, right.begin, out);
    EXPECT_EQ(std::memcmp(read.data(), right.data.raw(), read.size()), 0) << tensor.path;
  }
}

// Whichever ranks of a file have something to write, the first and the last of them too.
TEST(CheckpointWriter, RanksShareAFile) {
  const SharedFolder folder;
  const int ranks = world().size();
  std::int64_t step = 0;
  for (const int in_file : {2, 3, 7})
    for (int rows = std::max(1, ranks - 1); rows <= ranks; ++rows)
      for (int first = 0; first <= ranks - rows; ++first) {
        const bool background = step % 2 == 0;
        CheckpointWriter writer(world(), folder.path(), {}, in_file);
        Memory memory;
        writer.begin(fake_info(++step), parts(memory, rows, first), background);
        ASSERT_TRUE(writer.finish().has_value());
        writer.finish_views();
        const std::string directory = folder.path() + "/" + step_name(step);
        expect_fake(directory);
        expect_whole_views(directory);
        const int files = (ranks + in_file - 1) / in_file;
        const auto names = shards_in(directory);
        if (rows == ranks) {
          EXPECT_EQ(std::ssize(names), files);
        }
        for (const std::string& name : names) {
          const Hdf5File file(directory + "/" + name, Hdf5File::Mode::read);
          const int number = std::stoi(name.substr(6));
          for (int place = 0; place < in_file; ++place) {
            const int part = number * in_file + place - first;
            EXPECT_EQ(file.has(index_dataset_of(place)),
                      number * in_file + place < ranks && part >= 0 && part < rows)
                << name << " place " << place;
          }
        }
        world().barrier();
      }
}

// The last rank of a file has digested what the others wrote, too.
TEST(CheckpointWriter, OneByteOfASharedFileIsMissed) {
  const SharedFolder folder;
  CheckpointWriter writer(world(), folder.path(), {}, 3);
  Model model;
  writer.begin(fake_info(1), model.boxes, false);
  writer.finish();
  const std::string directory = folder.path() + "/" + step_name(1);
  if (world().rank() == 0) {
    const std::string path = directory + "/shard-00000.h5";
    const auto size = static_cast<std::streamoff>(fs::file_size(path));
    for (int i = 0; i < 40; ++i) {
      const std::streamoff at = size * i / 40;
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const auto flip = [&] {
        file.seekg(at);
        const char byte = static_cast<char>(file.get());
        file.seekp(at);
        file.put(static_cast<char>(byte ^ 1));
        file.flush();
      };
      flip();
      EXPECT_NE(why_incomplete(directory, 0, 1), "") << at;
      flip();
    }
    EXPECT_EQ(why_incomplete(directory, 0, 1), "");
  }
  world().barrier();
}

// A rank that fails in its turn ends the save for all; the one before stands.
TEST(CheckpointWriter, AFailureInALaterTurnPublishesNothing) {
  const SharedFolder folder;
  const std::string directory = folder.path() + "/c";
  CheckpointWriter writer(world(), directory, {}, 2);
  Model model;
  writer.begin(fake_info(1), model.boxes, true);
  writer.finish();
  const int rank = std::min(1, world().size() - 1);  // adds to what rank 0 has written
  const std::string shard = directory + "/" + temporary_name(2) + "/shard";
  for (int at = 1; at <= 3; ++at) {
    if (world().rank() == rank) io_faults_arm(shard.c_str(), io_fault_after, at, ENOSPC);
    Model next;
    writer.begin(fake_info(2), next.boxes, true);
    EXPECT_THROW(writer.finish(), comm::Agreed) << at;
    if (world().rank() == rank) io_faults_disarm();
    world().barrier();
    EXPECT_FALSE(fs::exists(directory + "/" + temporary_name(2)));
    EXPECT_EQ(CheckpointReader(directory).info().step, 1);
    world().barrier();
  }
}

TEST(CheckpointWriter, KeepsWhatItIsToldTo) {
  const SharedFolder folder;
  Retention retention;
  retention.keep = 2;
  retention.keep_every = 4;
  retention.started_from = 1;
  CheckpointWriter writer(world(), folder.path(), retention);
  Model model;
  for (std::int64_t step = 1; step <= 11; ++step) {
    writer.begin(fake_info(step), model.boxes, step % 2 == 0);
    writer.finish();
    world().barrier();
    EXPECT_TRUE(why_incomplete(find_checkpoint(folder.path()), 0, 1).empty());
    world().barrier();
  }
  EXPECT_EQ(steps_in(folder.path()), (std::vector<std::int64_t>{1, 4, 8, 10, 11}));
}

std::size_t leaving_in(const std::string& directory) {
  const auto names = names_in(directory);
  return static_cast<std::size_t>(
      std::count_if(names.begin(), names.end(),
                    [](const std::string& name) { return name.starts_with(".trash-"); }));
}

// Old ones lose their name with the new one's, and go while the caller does other things,
// also where it waits for the checkpoint.
TEST(CheckpointWriter, OldOnesGoInTheBackground) {
  const SharedFolder folder;
  Retention retention;
  retention.keep = 1;
  CheckpointWriter writer(world(), folder.path(), retention);
  Model model;
  for (std::int64_t step = 1; step <= 4; ++step) {
    EXPECT_TRUE(writer.idle());
    writer.begin(fake_info(step), model.boxes, false);
    const auto done = writer.wait_for_name();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->step, step);
    EXPECT_EQ(writer.idle(), step == 1) << step;
    EXPECT_EQ(steps_in(folder.path()), (std::vector<std::int64_t>{step}));
    EXPECT_FALSE(writer.finish());
    EXPECT_EQ(leaving_in(folder.path()), 0U);
  }
}

// A run that ended before all was removed: the next checkpoint, or start, removes it.
TEST(CheckpointWriter, WhatIsLeftOfOldOnesGoesLater) {
  const SharedFolder folder;
  Retention retention;
  retention.keep = 1;
  Model model;
  for (std::int64_t step = 1; step <= 3; ++step) {
    CheckpointWriter writer(world(), folder.path(), retention);
    writer.begin(fake_info(step), model.boxes, false);
    EXPECT_TRUE(writer.wait_for_name());
    world().barrier();
    EXPECT_EQ(steps_in(folder.path()), (std::vector<std::int64_t>{step}));
    world().barrier();
  }
  EXPECT_EQ(leaving_in(folder.path()), 1U);
  world().barrier();
  const auto names = clear_leftovers(world(), folder.path());
  EXPECT_EQ(leaving_in(folder.path()), 0U);
  if (world().rank() == 0) {
    EXPECT_EQ(steps_among(names), (std::vector<std::int64_t>{3}));
  }
  EXPECT_TRUE(why_incomplete(find_checkpoint(folder.path()), 0, 1).empty());
}

std::size_t count_of(const std::string& words, const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(words); at != std::string::npos;
       at = text.find(words, at + words.size()))
    ++count;
  return count;
}

// One that the disk does not let go is said once, and ends neither a save nor a start.
TEST(CheckpointWriter, AnOldOneThatStaysIsInNobodysWay) {
  const SharedFolder folder;
  const std::string name = ".trash-step-00000001";
  const std::string stays = folder.path() + "/" + name;
  Retention retention;
  retention.keep = 1;
  CheckpointWriter writer(world(), folder.path(), retention);
  Model model;
  const auto save = [&](std::int64_t step) {
    writer.begin(fake_info(step), model.boxes, false);
    EXPECT_TRUE(writer.finish().has_value()) << step;
    EXPECT_EQ(steps_in(folder.path()), (std::vector<std::int64_t>{step}));
    world().barrier();
  };
  io_faults_arm(stays.c_str(), io_fault_after, 1, EBUSY);
  testing::internal::CaptureStdout();
  for (std::int64_t step = 1; step <= 4; ++step) save(step);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(count_of(name, said), world().rank() == 0 ? 1U : 0U) << said;
  EXPECT_EQ(leaving_in(folder.path()), 1U);
  world().barrier();
  clear_leftovers(world(), folder.path());
  EXPECT_EQ(leaving_in(folder.path()), 1U);
  world().barrier();
  io_faults_disarm();
  save(5);
  EXPECT_EQ(leaving_in(folder.path()), 0U) << "each save tries again";
}

// A draft of the same step is, for the new one has its name.
TEST(CheckpointWriter, ADraftOfTheStepThatStaysIsAnError) {
  const SharedFolder folder;
  CheckpointWriter writer(world(), folder.path(), {});
  Model model;
  const std::string draft = folder.path() + "/" + temporary_name(1);
  if (world().rank() == 0) {
    fs::create_directory(draft);
    std::ofstream(draft + "/rest") << 'x';
  }
  world().barrier();
  io_faults_arm(draft.c_str(), io_fault_after, 1, EBUSY);
  try {
    writer.begin(fake_info(1), model.boxes, false);
    ADD_FAILURE();
  } catch (const comm::Agreed& error) {
    EXPECT_EQ(error.status(), Status::cannot_create);
    EXPECT_NE(std::string(error.what()).find(draft), std::string::npos) << error.what();
  }
  io_faults_disarm();
  EXPECT_TRUE(writer.idle());
  writer.begin(fake_info(1), model.boxes, false);
  EXPECT_TRUE(writer.finish().has_value());
}

TEST(CheckpointWriter, AsksForRoomFirst) {
  const SharedFolder folder;
  require_space(folder.path(), 1);
  try {
    require_space(folder.path(), std::int64_t{1} << 60);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_EQ(std::string(error.what()).find(folder.path()), 0U) << error.what();
    EXPECT_NE(std::string(error.what()).find("free"), std::string::npos);
  }
}

TEST(CheckpointWriter, KeepsTypesOfOneByte) {
  const SharedFolder folder;
  const int ranks = world().size(), rank = world().rank();
  std::vector<std::uint8_t> codes(6);
  for (std::size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<std::uint8_t>(40 * rank + static_cast<int>(i));
  std::vector<TensorBox> boxes;
  for (const DType dtype : {DType::e4m3, DType::e5m2, DType::u8})
    boxes.push_back({"model/" + std::string(name_of(dtype)),
                     {2 * ranks, 3},
                     {2 * rank, 0},
                     TensorView(codes.data(), dtype, {2, 3})});
  CheckpointWriter writer(world(), folder.path(), {});
  writer.begin(fake_info(1), boxes, true);
  writer.finish();
  const CheckpointReader reader(folder.path());
  ASSERT_EQ(reader.tensors().size(), 3U);
  std::vector<std::uint8_t> back(6);
  for (const auto& box : boxes) {
    std::fill(back.begin(), back.end(), std::uint8_t{0});
    reader.read(box.path, box.whole, box.begin,
                TensorView(back.data(), box.data.dtype(), {2, 3}));
    EXPECT_EQ(back, codes) << box.path;
  }
  EXPECT_EQ(reader.tensors()[0].dtype, DType::e4m3);
  std::vector<float> numbers(6);
  EXPECT_THROW(reader.read("model/e4m3", boxes[0].whole, boxes[0].begin,
                           TensorView(numbers.data(), DType::f32, {2, 3})),
               Error);
}

// A rank reads its part of the bytes for the digests, and its own boxes.
TEST(CheckpointWriter, ReadsTheBytesItNeeds) {
  const SharedFolder folder;
  const int ranks = world().size(), rank = world().rank();
  const FakeTensor matrix{"model/matrix", DType::f32, {600, 512}};
  Memory memory;
  const std::vector<TensorBox> rows = {test::make_box(memory, matrix, ranks, 1, rank)};
  test::write_checkpoint(world(), folder.path(), fake_info(1), rows, 0);
  constexpr std::int64_t whole = 600 * 512 * 4, slack = 40000;
  std::int64_t before = bytes_read();
  const CheckpointReader reader(folder.path(), {rank, ranks});
  EXPECT_LE(bytes_read() - before, whole / ranks + slack);
  EXPECT_GE(world().sum(static_cast<double>(bytes_read() - before)), double{whole});
  // Columns, of which every shard holds a part.
  const std::int64_t columns = 512 / 4;
  const TensorView part = test::make_view(memory, DType::f32, {600, columns}, 0);
  before = bytes_read();
  reader.read(matrix.path, matrix.shape, {0, columns}, part);
  EXPECT_GE(bytes_read() - before, whole / 4);
  EXPECT_LE(bytes_read() - before, whole / 4 + slack);
  test::for_each_element(part, matrix.shape, {0, columns},
                         [&](std::byte* at, std::int64_t index) {
                           float value = 0;
                           std::memcpy(&value, at, sizeof value);
                           ASSERT_EQ(value, matrix.value(index));
                         });
}

// Each byte by one part, whatever the number of parts.
TEST(CheckpointWriter, PartsVerifyEveryByteOnce) {
  const SharedFolder folder;
  Model model;
  test::write_checkpoint(world(), folder.path(), fake_info(1), model.boxes, 0);
  const std::string path = folder.path() + "/step-00000001";
  const Manifest manifest = read_manifest(path);
  std::int64_t bytes = 0;
  for (const auto& file : manifest.files) bytes += file.bytes;
  for (const int parts : {1, 2, 3, 7, 100}) {
    std::int64_t sum = 0;
    for (int part = 0; part < parts; ++part) {
      const Verification found = verify_share(path, manifest, part, parts);
      EXPECT_TRUE(found.damage.empty());
      sum += found.bytes;
    }
    EXPECT_EQ(sum, bytes) << parts;
  }
}

}  // namespace
}  // namespace trireme::io
