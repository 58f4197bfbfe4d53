// Checkpoints are written through little memory, however large a tensor is.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "base/memory.hpp"
#include "support/checkpoint_tensors.hpp"

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

TEST(CheckpointMemory, BoxesThatComeLaterPassThroughAFewRows) {
  const SharedFolder folder;
  Boxes later(true);
  later.come_later();
  io::write_checkpoint(world(), folder.path(), test::fake_info(1), later.boxes, 0);
  expect_large_model(folder.path());
  EXPECT_EQ(most_data() > 0, world().rank() == 0);
  // A row of the long matrix.
  EXPECT_LE(most_data(), 2 * 2200001);
}

}  // namespace
}  // namespace trireme::train
