// Checkpoints of several ranks: whole tensors on another cut, order of events, refusals.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "io/checkpoint_find.hpp"
#include "io/checkpoint_index.hpp"
#include "io/digest.hpp"
#include "io/files.hpp"
#include "io/index_gather.hpp"
#include "io/index_merge.hpp"
#include "support/checkpoint_tensors.hpp"
#include "support/sharded_index.hpp"
#include "support/written_checkpoint.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;
using test::fake_boxes;
using test::fake_info;
using test::fake_model;
using test::FakeTensor;
using test::Memory;
using test::SharedFolder;
using test::world;

// Rows x columns parts, as many as ranks; `tall` prefers rows.
std::array<int, 2> grid(bool tall) {
  const int ranks = world().size();
  int columns = ranks % 2 == 0 ? 2 : 1;
  if (tall) columns = 1;
  return {ranks / columns, columns};
}

// What was written before may be looked at by all until the next write begins.
void write_fake(const std::string& directory, std::int64_t step, int keep = 0,
                bool tall = false) {
  world().barrier();
  Memory memory;
  const auto [rows, columns] = grid(tall);
  test::write_checkpoint(world(), directory, fake_info(step),
                         fake_boxes(memory, rows, columns, tall ? 0 : 3), keep);
}

// Status and message of a write that must fail on every rank alike.
template <class F>
std::pair<Status, std::string> agreed_failure(const F& work) {
  try {
    work();
  } catch (const comm::Agreed& error) {
    return {error.status(), error.what()};
  }
  return {Status::done, ""};
}

// Digest of a fake tensor from its definition.
std::string true_digest(const FakeTensor& tensor) {
  Memory memory;
  const auto box = test::make_box(memory, tensor, 1, 1, 0);
  Digest digest;
  digest.add(box.data.raw(), box.data.bytes());
  return digest.text();
}

// Names below a folder, sorted.
std::vector<std::string> listing(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string output_of(const std::string& command) {
  std::string text;
  std::array<char, 4096> block{};
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return text;
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), pipe))
    text.append(block.data(), got);
  ::pclose(pipe);
  return text;
}

TEST(Checkpoint, ReadsOnAnyOtherCut) {
  const SharedFolder folder;
  write_fake(folder.path() + "/run/checkpoints", 7);
  const CheckpointReader reader(folder.path() + "/run", {world().rank(), world().size()});
  EXPECT_EQ(reader.directory(), folder.path() + "/run/checkpoints/step-00000007");
  EXPECT_EQ(reader.info().step, 7);
  EXPECT_EQ(reader.info().tokens, 7000);
  EXPECT_EQ(reader.info().program_version, "1.2.3");
  EXPECT_EQ(reader.info().mesh, (comm::MeshShape{1, 2, 1, 2}));
  EXPECT_EQ(reader.info().deck, fake_info(7).deck);
  EXPECT_EQ(reader.info().commit, "0123456789ab");
  EXPECT_EQ(reader.info().host, "node-1");
  EXPECT_EQ(reader.info().written, "2026-01-31T12:00:00Z");
  EXPECT_EQ(reader.info().loss, 2.5);
  for (const auto& [rows, columns] :
       std::vector<std::array<int, 2>>{{1, 1}, {2, 1}, {1, 2}, {3, 1}, {1, 3}, {2, 3}}) {
    for (const auto& tensor : fake_model()) {
      for (int part = 0; part < rows * columns; ++part) {
        Memory memory;
        const auto box = test::make_box(memory, tensor, rows, columns, part, 5);
        test::for_each_element(
            box.data, box.whole, box.begin,
            [&](std::byte* at, std::int64_t) { test::store(at, tensor.dtype, 0); });
        reader.read(tensor.path, box.whole, box.begin, box.data);
        const auto expected = test::make_box(memory, tensor, rows, columns, part, 5);
        test::for_each_element(
            box.data, box.whole, box.begin, [&](std::byte* at, std::int64_t index) {
              std::array<std::byte, 8> right{};
              test::store(right.data(), tensor.dtype, tensor.value(index));
              ASSERT_EQ(std::memcmp(at, right.data(), size_of(tensor.dtype)), 0)
                  << tensor.path << " element " << index;
            });
      }
    }
  }
}

TEST(Checkpoint, ConvertsFloatsAndRefusesOtherShapes) {
  const SharedFolder folder;
  write_fake(folder.path(), 1);
  const CheckpointReader reader(folder.path());
  const auto& tensor = fake_model()[0];  // f32
  std::vector<BFloat16> brain(static_cast<std::size_t>(tensor.shape.elements()));
  reader.read(tensor.path, tensor.shape, {0, 0},
              TensorView(brain.data(), DType::bf16, tensor.shape));
  for (std::size_t i = 0; i < brain.size(); ++i)
    ASSERT_EQ(static_cast<double>(static_cast<float>(brain[i])),
              tensor.value(static_cast<std::int64_t>(i)));
  const auto status = [&](const std::string& path, const Shape& whole) {
    try {
      reader.read(path, whole, {0, 0}, TensorView(brain.data(), DType::bf16, {1, 1}));
    } catch (const Error& error) {
      return error.status();
    }
    return Status::done;
  };
  EXPECT_EQ(status(tensor.path, tensor.shape), Status::done);
  EXPECT_EQ(status(tensor.path, {37, 17}), Status::bad_content);
  EXPECT_EQ(status("model/none", tensor.shape), Status::bad_content);
  EXPECT_TRUE(reader.has(tensor.path));
  EXPECT_FALSE(reader.has("model/none"));
}

TEST(Checkpoint, DigestsDoNotDependOnTheCut) {
  const SharedFolder folder;
  write_fake(folder.path() + "/a", 1, 0, false);
  write_fake(folder.path() + "/b", 1, 0, true);
  const CheckpointReader a(folder.path() + "/a"), b(folder.path() + "/b");
  ASSERT_EQ(a.tensors().size(), fake_model().size());
  for (const auto& tensor : fake_model()) {
    EXPECT_EQ(a.digest(tensor.path), true_digest(tensor)) << tensor.path;
    EXPECT_EQ(b.digest(tensor.path), true_digest(tensor)) << tensor.path;
  }
  for (std::size_t i = 1; i < a.tensors().size(); ++i)
    EXPECT_LT(a.tensors()[i - 1].path, a.tensors()[i].path);
}

TEST(Checkpoint, EqualContentGivesEqualFiles) {
  const SharedFolder folder;
  write_fake(folder.path() + "/a", 1);
  ::sleep(1);  // HDF5 counts time in seconds
  write_fake(folder.path() + "/b", 1);
  const auto names = listing(folder.path() + "/a/step-00000001");
  EXPECT_EQ(listing(folder.path() + "/b/step-00000001"), names);
  for (const auto& name : names)
    EXPECT_EQ(file_digest(folder.path() + "/a/step-00000001/" + name),
              file_digest(folder.path() + "/b/step-00000001/" + name))
        << name;
}

TEST(Checkpoint, OtherToolsShowWholeTensors) {
  if (std::system("h5dump --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no h5dump";
  const SharedFolder folder;
  write_fake(folder.path(), 1);
  if (world().rank() != 0) return;
  const std::string file = folder.path() + "/latest/checkpoint.h5";
  for (const auto& tensor : fake_model()) {
    // -y: no indices; -w 1: a number a line.
    const std::string dump = output_of("h5dump -y -w 1 -d /" + tensor.path + " " + file);
    const auto data = dump.find("DATA {");
    ASSERT_NE(data, std::string::npos) << dump;
    std::istringstream lines(dump.substr(data + 6));
    std::int64_t index = 0;
    for (std::string word; lines >> word && word != "}"; ++index)
      ASSERT_EQ(std::stod(word), tensor.value(index)) << tensor.path << " " << index;
    EXPECT_EQ(index, tensor.shape.elements()) << tensor.path;
  }
  const std::string mesh = output_of("h5dump -a /mesh " + file);
  EXPECT_NE(mesh.find("pipeline=1 data=2 context=1 tensor=2"), std::string::npos) << mesh;
}

TEST(Checkpoint, EveryElementIsWrittenOnce) {
  const SharedFolder folder;
  write_fake(folder.path(), 1);
  const FakeTensor tensor{"model/x", DType::f32, {8, 6}};
  const auto write = [&](const Shape& begin, const Shape& extent, bool writes = true) {
    world().barrier();
    std::vector<float> data(static_cast<std::size_t>(extent.elements()));
    return agreed_failure([&] {
      std::vector<TensorBox> boxes;
      if (world().rank() == world().size() - 1)
        boxes.push_back({"model/x",
                         {8, 6},
                         begin,
                         TensorView(data.data(), DType::f32, extent),
                         writes});
      Memory memory;
      boxes.push_back(
          test::make_box(memory, tensor, world().size() + 1, 1, world().rank()));
      test::write_checkpoint(world(), folder.path(), fake_info(2), boxes, 0);
    });
  };
  const Range gap = split_range(8, world().size() + 1, world().size());
  const Shape begin{gap.begin, 0}, extent{gap.count(), 6};
  const auto is = [](const std::pair<Status, std::string>& failure, const char* text) {
    EXPECT_EQ(failure.first, Status::internal);
    EXPECT_NE(failure.second.find(text), std::string::npos) << failure.second;
  };
  is(write({gap.begin, 1}, {gap.count(), 5}), "are written by no rank");
  is(write({gap.begin - 1, 0}, {gap.count() + 1, 6}), "both write a part of 'model/x'");
  is(write({gap.begin, 1}, extent), "lies outside");
  is(write(begin, extent, false), "are written by no rank");
  EXPECT_EQ(listing(folder.path()),
            (std::vector<std::string>{"latest", "step-00000001"}));
  EXPECT_EQ(write(begin, extent).first, Status::done);
}

TEST(Checkpoint, KeepsTheNewest) {
  const SharedFolder folder;
  for (std::int64_t step = 1; step <= 5; ++step) write_fake(folder.path(), step, 2);
  EXPECT_EQ(listing(folder.path()),
            (std::vector<std::string>{"latest", "step-00000004", "step-00000005"}));
  EXPECT_EQ(fs::read_symlink(folder.path() + "/latest"), "step-00000005");
  EXPECT_EQ(find_checkpoint(folder.path()), folder.path() + "/step-00000005");
  // Going on from an older one: the one just written stays, whatever its number, and
  // `latest` follows it; the newest is still the highest step.
  write_fake(folder.path(), 2, 2);
  EXPECT_EQ(listing(folder.path()),
            (std::vector<std::string>{"latest", "step-00000002", "step-00000005"}));
  EXPECT_EQ(fs::read_symlink(folder.path() + "/latest"), "step-00000002");
  EXPECT_EQ(find_checkpoint(folder.path()), folder.path() + "/step-00000005");
  EXPECT_THROW(find_checkpoint(folder.path() + "/none"), Error);
}

TEST(Checkpoint, WhatStandsIsNotWrittenAgainUnlessDamaged) {
  const SharedFolder folder;
  write_fake(folder.path(), 1);
  write_fake(folder.path(), 2);
  const std::string shard = folder.path() + "/step-00000001/shard-00000.h5";
  const auto time = fs::last_write_time(shard);
  world().barrier();
  write_fake(folder.path(), 1);
  EXPECT_EQ(fs::last_write_time(shard), time);
  EXPECT_EQ(fs::read_symlink(folder.path() + "/latest"), "step-00000001");
  world().barrier();
  if (world().rank() == 0) {
    std::fstream file(shard, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }
  world().barrier();
  write_fake(folder.path(), 1);
  EXPECT_NO_THROW(CheckpointReader(folder.path() + "/step-00000001"));
  EXPECT_EQ(listing(folder.path()),
            (std::vector<std::string>{"latest", "step-00000001", "step-00000002"}));
}

TEST(Checkpoint, LeftoversGoAndFailuresNameThePath) {
  const SharedFolder folder;
  if (world().rank() == 0) {
    fs::create_directories(folder.path() + "/c/.step-00000009.tmp");
    fs::create_directories(folder.path() + "/c/.trash-step-00000001/x");
    std::ofstream(folder.path() + "/file") << "x";
  }
  world().barrier();
  write_fake(folder.path() + "/c", 3);
  EXPECT_EQ(listing(folder.path() + "/c"),
            (std::vector<std::string>{"latest", "step-00000003"}));
  const auto [status, message] =
      agreed_failure([&] { write_fake(folder.path() + "/file/c", 3); });
  EXPECT_EQ(status, Status::cannot_create);
  EXPECT_NE(message.find(folder.path() + "/file: "), std::string::npos) << message;
}

// Rank 0 gets the same index in rounds as at once. Shards are out of the ranks' order,
// one alone exceeds a round here, rank 0 has two, and of more than two ranks the last has
// none.
TEST(Checkpoint, IndicesComeInRounds) {
  constexpr test::ShardedModel model = {2, 64, 16, 176, 500};
  const int size = world().size(), last = size > 2 ? size - 1 : size;
  const auto shard = [&](int number) {
    return test::shard_index(model, number, size + 1);
  };
  const auto number_of = [&](int rank) { return (rank + 1) % size; };
  const auto gathered = [&](std::int64_t most) {
    std::map<int, std::string> mine;
    if (const int rank = world().rank(); rank < last)
      mine[number_of(rank)] = shard(number_of(rank));
    if (world().rank() == 0) mine[size] = shard(size);
    IndexGather indices(world(), std::move(mine), most);
    std::size_t rounds = 0;
    for (; !indices.done(); ++rounds) {
      indices.gather_next();
      if (world().rank() == 0) indices.merge();
    }
    std::vector<std::string> merged = indices.take();
    if (rounds > 1) {
      EXPECT_EQ(merged.size(), world().rank() == 0 ? rounds : 0);
    }
    return std::pair{rounds, world().rank() == 0
                                 ? IndexMerge({merged.begin(), merged.end()}).text()
                                 : std::string()};
  };
  const auto [once, whole] = gathered(IndexGather::round_bytes);
  EXPECT_EQ(once, 1U);
  const auto of_each = static_cast<std::int64_t>(shard(0).size());
  for (const std::int64_t most : {std::int64_t{1}, of_each * 5 / 2}) {
    const auto [rounds, text] = gathered(most);
    EXPECT_EQ(text, whole);
    if (most == 1) {
      EXPECT_EQ(rounds, static_cast<std::size_t>(last + 1));
    }
  }
  if (world().rank() != 0) return;
  std::map<int, std::string> all{{size, shard(size)}};
  for (int rank = 0; rank < last; ++rank) all[number_of(rank)] = shard(number_of(rank));
  std::vector<std::string> shards;
  for (const auto& [number, index] : all) shards.push_back(index);
  EXPECT_EQ(whole, index_bytes(merge_indices(shards)));
}

TEST(Checkpoint, GathersTexts) {
  std::string own(static_cast<std::size_t>(world().rank()) * 1000,
                  static_cast<char>('a' + world().rank()));
  const int root = world().size() - 1;
  const auto texts = world().gather_text(own, root);
  if (world().rank() != root) {
    EXPECT_TRUE(texts.empty());
    return;
  }
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(world().size()));
  for (std::size_t r = 0; r < texts.size(); ++r)
    EXPECT_EQ(texts[r], std::string(r * 1000, static_cast<char>('a' + r)));
}

}  // namespace
}  // namespace trireme::io
