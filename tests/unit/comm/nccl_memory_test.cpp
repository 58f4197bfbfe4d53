// Communicators of NCCL that a mesh makes, counted by hand.
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_memory.hpp"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

void expect_count(const MeshShape& shape, const Folding& folding, int communicators,
                  int links, const GroupUse& use = {}) {
  const NcclCount count = count_nccl(shape, folding, use);
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

TEST(NcclMemory, GroupsWithoutAUserHaveNone) {
  // The ends of an untied pipeline; then all of its ranks, which only send to neighbours.
  expect_count({.pipeline = 4, .data = 2, .tensor = 8}, {}, 4, 4, {.embedding = false});
  expect_count({.pipeline = 4, .data = 2, .tensor = 8}, {}, 3, 4,
               {.pipeline = false, .embedding = false});
  // Where another group has the same ranks it stays.
  expect_count({.pipeline = 2, .data = 2}, {}, 3, 2, {.embedding = false});
  // The world, replicas, context, tensor; without context.
  const MeshShape shape{.data = 2, .context = 2, .tensor = 2};
  expect_count(shape, {}, 4, 2, {.data = false});
  expect_count(shape, {}, 3, 2, {.data = false, .context = false});
  // The world, replicas, tensor, shards, copies, and tensor with shards; then no
  // replicas.
  expect_count(shape, {.shard = 2}, 6, 2);
  expect_count(shape, {.shard = 2}, 5, 2, {.replicas = false, .expert_replicas = false});
  // Those that hold the same experts hold the same shards of them, which has a use.
  expect_count({.data = 8}, {.expert = 4}, 3, 0, {.expert_replicas = false});
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
