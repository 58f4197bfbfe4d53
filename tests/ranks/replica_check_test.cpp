// Replicas that differ by one bit are found, and every rank says which, where and who.
// SPDX-License-Identifier: Apache-2.0
#include "train/replica_check.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "support/checkpoint_tensors.hpp"
#include "unit/config/deck_sample.hpp"

namespace trireme::train {
namespace {

using test::expect_contains;
using test::world;

// What every rank holds alike, a box of its own, and one that all ranks but 0 hold, whose
// rows are strided.
struct Boxes {
  Boxes() {
    const test::FakeTensor norm{"model/norm.weight", DType::f32, {5}};
    const test::FakeTensor own{"model/q_proj.weight", DType::bf16, {12, 4}};
    const test::FakeTensor most{"model/tied.weight", DType::f32, {6, 4}};
    boxes.push_back(test::make_box(memory, norm, 1, 1, 0));
    boxes.push_back(test::make_box(memory, own, world().size(), 1, world().rank()));
    if (world().rank() > 0) boxes.push_back(test::make_box(memory, most, 1, 1, 0, 4));
  }
  void flip(std::size_t box) {
    auto* byte = static_cast<unsigned char*>(boxes[box].data.raw());
    *byte = static_cast<unsigned char>(*byte ^ 1);
  }
  // What the check says; empty: nothing.
  std::string check(int gathered = gathered_ranks) {
    const auto [text, status] =
        test::error_of([&] { check_replicas(world(), mesh, boxes, 7, gathered); });
    if (status == Status::done) return "";
    EXPECT_EQ(status, Status::corruption);
    return text;
  }

  comm::Mesh mesh{world(), {.data = world().size()}};
  test::Memory memory;
  std::vector<io::TensorBox> boxes;
};

TEST(ReplicaCheck, WhatIsAlikePasses) {
  Boxes here;
  EXPECT_EQ(here.check(), "");
  // A box that no other rank holds may be anything.
  if (world().rank() == 1) here.flip(1);
  EXPECT_EQ(here.check(), "");
}

TEST(ReplicaCheck, OneBitIsFoundOnEveryRank) {
  Boxes here;
  const int last = world().size() - 1;
  if (world().rank() == last) here.flip(0);
  const std::string text = here.check();
  expect_contains(text, "after step 7: model/norm.weight");
  if (world().size() == 2) {
    expect_contains(text, "ranks 0, 1 hold different bits");
  } else {
    expect_contains(text, "rank " + std::to_string(last) + " differs from ranks 0");
  }
}

// As among many ranks: by one digest in each group, then box by box.
TEST(ReplicaCheck, OneBitIsFoundByTheEndsOfHashes) {
  Boxes here;
  EXPECT_EQ(here.check(1), "");
  if (world().rank() == 1) here.flip(1);
  EXPECT_EQ(here.check(1), "") << "no other rank holds it";
  const int last = world().size() - 1;
  if (world().rank() == last) here.flip(0);
  const std::string text = here.check(1);
  expect_contains(text, "after step 7: model/norm.weight");
  if (world().size() > 2)
    expect_contains(text, "rank " + std::to_string(last) + " differs from ranks 0");
  EXPECT_EQ(text, here.check());
}

// A job script reads the file; a tie says nothing of who is wrong.
TEST(ReplicaCheck, TheHostOfTheOddRankIsNamed) {
  const test::SharedFolder folder;
  const std::string path = folder.path() + "/bad";
  ::setenv("TRIREME_BAD_HOSTS", path.c_str(), 1);
  Boxes here;
  if (world().rank() == world().size() - 1) here.flip(0);
  here.check();
  ::unsetenv("TRIREME_BAD_HOSTS");
  world().barrier();
  std::ifstream file(path);
  std::string host;
  EXPECT_EQ(static_cast<bool>(std::getline(file, host)), world().size() > 2);
  EXPECT_EQ(host, world().size() > 2 ? world().host() : "");
}

// Rank 0 does not hold the tensor, and so does not know its name by itself.
TEST(ReplicaCheck, ABoxThatTheFirstRankLacks) {
  Boxes here;
  const int last = world().size() - 1;
  if (world().rank() == last) here.flip(2);
  const std::string text = here.check();
  if (last == 1) {
    EXPECT_EQ(text, "") << "no other rank holds it";
    return;
  }
  expect_contains(text, "model/tied.weight");
  expect_contains(text, "ranks 1, 2 hold different bits");
}

}  // namespace
}  // namespace trireme::train
