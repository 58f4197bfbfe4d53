// Communicators of NCCL that a mesh makes, counted by hand.
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_memory.hpp"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

void expect_count(const MeshShape& shape, const Folding& folding, int communicators,
                  int links) {
  const NcclCount count = count_nccl(shape, folding);
  EXPECT_EQ(count.communicators, communicators);
  EXPECT_EQ(count.links, links);
}

TEST(NcclMemory, GroupsOfTheSameRanksShareACommunicator) {
  expect_count({}, {}, 0, 0);
  expect_count({.data = 64}, {}, 1, 0);
  expect_count({.data = 64}, {.shard = 64}, 1, 0);
  expect_count({.data = 64}, {.shard = 8}, 3, 0);
  // The world, pipeline, data, tensor, and the ends; neighbours on both sides.
  expect_count({.pipeline = 4, .data = 2, .tensor = 8}, {}, 5, 4);
  // Two stages are the ends, too.
  expect_count({.pipeline = 2, .data = 2}, {}, 3, 2);
  // The world, replicas, data, context, tensor.
  expect_count({.data = 2, .context = 2, .tensor = 2}, {}, 5, 2);
  // The world, experts, those that hold the same experts.
  expect_count({.data = 8}, {.expert = 4}, 3, 0);
}

TEST(NcclMemory, BytesGrowWithWhatIsCounted) {
  const auto bytes = [](const MeshShape& shape) {
    return count_nccl(shape, {}).estimated_bytes();
  };
  EXPECT_EQ(bytes({}), 0);
  EXPECT_GT(bytes({.data = 8}), 0);
  EXPECT_GT(bytes({.pipeline = 4, .data = 2}), bytes({.data = 8}));
}

}  // namespace
}  // namespace trireme::comm
