// Coordinates and groups of a mesh, on the device of the test.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mesh.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "ranks/comm_tensors.hpp"
#include "support/world.hpp"

namespace trireme::comm {
namespace {

constexpr Axis all_axes[] = {Axis::pipeline, Axis::data, Axis::context, Axis::tensor};

TEST(MeshShape, TensorIsFastest) {
  const MeshShape shape{.pipeline = 2, .data = 3, .context = 5, .tensor = 4};
  EXPECT_EQ(shape.size(), 120);
  for (int rank = 0; rank < shape.size(); ++rank) {
    const int p = shape.coordinate(rank, Axis::pipeline);
    const int d = shape.coordinate(rank, Axis::data);
    const int c = shape.coordinate(rank, Axis::context);
    const int t = shape.coordinate(rank, Axis::tensor);
    EXPECT_EQ(((p * 3 + d) * 5 + c) * 4 + t, rank);
  }
}

// World ranks of a group, gathered over it.
std::vector<float> members(Group& group) {
  Stream stream(test::test_device());
  const Buffer own = test::buffer(DType::f32, 1);
  const Buffer all = test::buffer(DType::f32, group.size());
  test::write<float>(own.view(), [](std::int64_t) { return test::world().rank(); });
  group.all_gather(stream, own.view(), all.view()).wait();
  const test::OnHost here(all.view());
  const auto values = here.view().span<float>();
  return {values.begin(), values.end()};
}

void check(const MeshShape& shape) {
  const int rank = test::world().rank();
  const Mesh mesh(test::world(), shape, {}, test::test_device());
  for (const Axis axis : all_axes) {
    std::vector<float> expected;
    for (int other = 0; other < shape.size(); ++other) {
      bool same = true;
      for (const Axis a : all_axes)
        same = same &&
               (a == axis || shape.coordinate(other, a) == shape.coordinate(rank, a));
      if (same) expected.push_back(static_cast<float>(other));
    }
    EXPECT_EQ(members(mesh.group(axis)), expected) << name_of(axis);
    EXPECT_EQ(mesh.group(axis).rank(), mesh.coordinate(axis));
    EXPECT_EQ(mesh.group(axis).size(), shape.extent(axis));
    EXPECT_EQ(mesh.group(axis).name(), name_of(axis));
  }
  std::vector<float> replicas, everyone;
  for (int other = 0; other < shape.size(); ++other) {
    everyone.push_back(static_cast<float>(other));
    if (shape.coordinate(other, Axis::tensor) == mesh.coordinate(Axis::tensor) &&
        shape.coordinate(other, Axis::pipeline) == mesh.coordinate(Axis::pipeline))
      replicas.push_back(static_cast<float>(other));
  }
  EXPECT_EQ(members(mesh.everyone()), everyone);
  EXPECT_EQ(members(mesh.replicas()), replicas);

  const Mesh planned = Mesh::meta(shape, rank);
  for (const Axis axis : all_axes) {
    EXPECT_EQ(planned.group(axis).rank(), mesh.group(axis).rank());
    EXPECT_EQ(planned.group(axis).size(), mesh.group(axis).size());
  }
  EXPECT_EQ(planned.replicas().rank(), mesh.replicas().rank());
  EXPECT_EQ(planned.everyone().rank(), rank);
}

TEST(Mesh, GroupsOfEveryShape) {
  const int ranks = test::world().size();
  for (int p = 1; p <= ranks; ++p)
    for (int d = 1; d <= ranks; ++d)
      for (int c = 1; c <= ranks; ++c)
        for (int t = 1; t <= ranks; ++t)
          if (p * d * c * t == ranks)
            check({.pipeline = p, .data = d, .context = c, .tensor = t});
}

TEST(Mesh, RefusesAnotherSize) {
  try {
    const Mesh mesh(test::world(), {.data = test::world().size(), .tensor = 2});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::resources);
  }
}

}  // namespace
}  // namespace trireme::comm
