// Checkpoints are written and read through little memory, however large a tensor is.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/memory.hpp"
#include "support/checkpoint_tensors.hpp"
#include "support/loaded_checkpoint.hpp"
#include "support/written_checkpoint.hpp"
#include "train/box_windows.hpp"
#include "train/checkpoint_load.hpp"

namespace trireme::train {
namespace {

using test::SharedFolder;
using test::world;

// Several windows each; of one a row is larger than a window.
const std::vector<test::FakeTensor>& large_model() {
  static const std::vector<test::FakeTensor> tensors = {
      {"model/embed.weight", DType::f32, {1501, 1000}},
      {"model/experts.weight", DType::f32, {2, 500, 1201}},
      {"model/long.weight", DType::bf16, {2, 2200001}},
      {"model/vector", DType::f32, {1100003}}};
  return tensors;
}

struct Boxes {
  test::Memory memory;
  std::vector<io::TensorBox> boxes;

  explicit Boxes(bool whole, std::int64_t gap = 0) {
    const int parts = whole ? 1 : world().size(), part = whole ? 0 : world().rank();
    for (const auto& tensor : large_model())
      boxes.push_back(test::make_box(memory, tensor, parts, 1, part, gap));
  }
  // On rank 0 alone, and not in memory before it is asked for.
  void come_later() {
    for (io::TensorBox& box : boxes) {
      const TensorView from = box.data;
      box.write = world().rank() == 0;
      box.fill = [from](std::int64_t first, const TensorView& out) {
        const auto width = static_cast<std::int64_t>(size_of(from.dtype()));
        std::memcpy(out.raw(), static_cast<const std::byte*>(from.raw()) + first * width,
                    out.bytes());
      };
    }
  }
};

std::int64_t most_data() { return memory_use(MemoryClass::data).peak_bytes; }

void expect_large_model(const std::string& directory) {
  const io::CheckpointReader reader(directory);
  for (const auto& tensor : large_model()) {
    test::Memory memory;
    const auto right = test::make_box(memory, tensor, 1, 1, 0);
    const auto read = test::make_view(memory, tensor.dtype, tensor.shape, 0);
    reader.read(tensor.path, tensor.shape, right.begin, read);
    EXPECT_EQ(std::memcmp(read.raw(), right.data.raw(), read.bytes()), 0) << tensor.path;
  }
}

// Same values where the boxes are, and nothing beside them is touched.
void expect_filled(Boxes& filled, const Boxes& right) {
  for (std::size_t i = 0; i < right.memory.size(); ++i) {
    EXPECT_TRUE(filled.memory[i] == right.memory[i]) << right.boxes[i].path;
    std::ranges::fill(filled.memory[i], std::byte{});
  }
}

TEST(CheckpointMemory, BoxesThatComeLaterPassThroughAFewRows) {
  const SharedFolder folder;
  Boxes later(true);
  later.come_later();
  test::write_checkpoint(world(), folder.path(), test::fake_info(1), later.boxes, 0);
  expect_large_model(folder.path());
  EXPECT_EQ(most_data() > 0, world().rank() == 0);
  // A row of the long matrix.
  EXPECT_LE(most_data(), 2 * 2200001);
}

TEST(CheckpointMemory, LoadingTakesAWindow) {
  const SharedFolder folder;
  Boxes saved(true);
  saved.come_later();
  test::write_checkpoint(world(), folder.path(), test::fake_info(1), saved.boxes, 0);
  comm::Mesh mesh(world(), {.data = world().size()});
  const std::int64_t before = memory_use(MemoryClass::data).bytes;
  for (const bool whole : {true, false}) {
    SCOPED_TRACE(whole);
    const std::int64_t gap = whole ? 6 : 0;
    const Boxes right(whole, gap);
    Boxes boxes(whole, gap);
    for (auto& memory : boxes.memory) std::ranges::fill(memory, std::byte{});
    test::load_by_all(world(), folder.path(), boxes.boxes, replica_groups(mesh));
    expect_filled(boxes, right);
    load_by_one(world(), mesh, folder.path(), boxes.boxes);
    expect_filled(boxes, right);
  }
  EXPECT_EQ(memory_use(MemoryClass::data).bytes, before);
  EXPECT_LE(most_data(), std::max<std::int64_t>(window_bytes, 2 * 2200001));
}

// In order, each element once.
TEST(BoxWindows, AreAllOfATensor) {
  for (const Shape& shape : {Shape{7}, Shape{5, 3}, Shape{3, 4, 5}, Shape{2, 3, 2, 3}}) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(shape.elements()));
    std::iota(all.begin(), all.end(), 0);
    const TensorView view(all.data(), DType::i64, shape);
    for (std::int64_t most = 1; most <= shape.elements() + 1; ++most) {
      SCOPED_TRACE(format("{} {}", shape, most));
      std::int64_t next = 0;
      for (const BoxWindow& window : windows_of(shape, most)) {
        ASSERT_LE(window.extent.elements(), most);
        const TensorView part = part_of(view, window);
        ASSERT_EQ(part.shape(), window.extent);
        ASSERT_EQ(*part.data<std::int64_t>(), next);
        next += window.extent.elements();
      }
      ASSERT_EQ(next, shape.elements());
    }
  }
  EXPECT_TRUE(windows_of({0, 4}, 3).empty());
}

}  // namespace
}  // namespace trireme::train
