// What a checkpoint that does not fit the run's FP8 state is told to change.
// SPDX-License-Identifier: Apache-2.0
#include "train/start.hpp"

#include <gtest/gtest.h>

#include "support/checkpoint_tensors.hpp"
#include "support/written_checkpoint.hpp"
#include "unit/config/deck_sample.hpp"

namespace trireme::train {
namespace {

using test::SharedFolder;
using test::world;

std::vector<io::TensorBox> boxes_of(test::Memory& memory, std::int64_t history,
                                    std::int64_t width = 4) {
  const std::string layer = "model/layers.0.self_attn.q_proj.";
  std::vector<io::TensorBox> boxes;
  const auto add = [&](const char* name, Shape shape) {
    boxes.push_back(test::make_box(memory, {layer + name, DType::f32, shape}, 1, 1, 0));
  };
  add("weight", {6, width});
  if (history > 0) add("amax_history", {3, history});
  if (history > 0) add("scale", {3});
  return boxes;
}

// The error of a run with these boxes that goes on from a checkpoint with those.
std::string error_of(const std::vector<io::TensorBox>& stored,
                     const std::vector<io::TensorBox>& wanted) {
  const SharedFolder folder;
  test::write_checkpoint(world(), folder.path(), test::fake_info(1), stored, 0);
  const auto config = config::make_run_config(test::parse_sample(), 1);
  const auto [text, status] = test::error_of([&] {
    boxes_of_checkpoint(world(), config,
                        io::CheckpointReader(folder.path(), io::no_digests), wanted);
  });
  EXPECT_EQ(status, Status::bad_content) << text;
  return text;
}

TEST(BoxesOfCheckpoint, NameTheKeysOfScalesAndOfTheModel) {
  test::Memory memory;
  test::expect_contains(error_of(boxes_of(memory, 16), boxes_of(memory, 8)),
                        "write precision.amax_history = 16, as in the deck");
  test::expect_contains(error_of(boxes_of(memory, 0), boxes_of(memory, 8)),
                        "which this run's precision.recipe has: write the "
                        "precision.recipe, first_bf16 and last_bf16 of the deck");
  test::expect_contains(error_of(boxes_of(memory, 0, 5), boxes_of(memory, 0)),
                        "write the [model] and [adapter] of the deck");
}

}  // namespace
}  // namespace trireme::train
