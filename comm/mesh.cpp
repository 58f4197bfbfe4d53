// Mesh.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mesh.hpp"

#include <functional>

#include "comm/meta_group.hpp"
#include "comm/mpi/split.hpp"

namespace trireme::comm {
namespace {

// Ranks between neighbours along an axis: the product of all faster extents.
int stride(const MeshShape& shape, Axis axis) {
  int product = 1;
  for (int a = static_cast<int>(axis) + 1; a < axes; ++a)
    product *= shape.extent(static_cast<Axis>(a));
  return product;
}

void check_shape(const MeshShape& shape, int ranks) {
  for (int a = 0; a < axes; ++a) {
    const auto axis = static_cast<Axis>(a);
    require(shape.extent(axis) >= 1, Status::resources,
            "parallel.{} = {} must be at least 1", name_of(axis), shape.extent(axis));
  }
  require(
      shape.size() == ranks, Status::resources,
      "pipeline {} x data {} x context {} x tensor {} needs {} ranks, but the job has "
      "{}",
      shape.pipeline, shape.data, shape.context, shape.tensor, shape.size(), ranks);
}

// Makes the group called name, whose ranks give the same color: (name, color, rank in the
// group, size).
using Maker = std::function<std::unique_ptr<Group>(std::string, int, int, int)>;

struct Groups {
  std::array<std::unique_ptr<Group>, axes> of_axis;
  std::unique_ptr<Group> everyone, replicas;
};

Groups make_groups(const MeshShape& shape, int rank, const Maker& make) {
  Groups groups;
  for (int a = 0; a < axes; ++a) {
    const auto axis = static_cast<Axis>(a);
    const int at = shape.coordinate(rank, axis);
    groups.of_axis[static_cast<std::size_t>(a)] =
        make(std::string(name_of(axis)), rank - at * stride(shape, axis), at,
             shape.extent(axis));
  }
  groups.everyone = make("everyone", 0, rank, shape.size());
  const int replica = shape.coordinate(rank, Axis::data) * shape.context +
                      shape.coordinate(rank, Axis::context);
  const int color = shape.coordinate(rank, Axis::pipeline) * shape.tensor +
                    shape.coordinate(rank, Axis::tensor);
  groups.replicas = make("replicas", color, replica, shape.data * shape.context);
  return groups;
}

}  // namespace

std::string_view name_of(Axis axis) {
  constexpr std::array<std::string_view, axes> names = {"pipeline", "data", "context",
                                                        "tensor"};
  return names[static_cast<std::size_t>(axis)];
}

int MeshShape::extent(Axis axis) const {
  switch (axis) {
    case Axis::pipeline: return pipeline;
    case Axis::data: return data;
    case Axis::context: return context;
    case Axis::tensor: return tensor;
  }
  return 1;
}

int MeshShape::coordinate(int rank, Axis axis) const {
  return rank / stride(*this, axis) % extent(axis);
}

Mesh::Mesh(World& world, const MeshShape& shape) : shape_(shape), rank_(world.rank()) {
  check_shape(shape, world.size());
  Groups groups =
      make_groups(shape, rank_, [&](std::string name, int color, int rank, int size) {
        return size == 1 ? make_meta_group(std::move(name), 0, 1)
                         : split_group(world, std::move(name), color, rank);
      });
  groups_ = std::move(groups.of_axis);
  everyone_ = std::move(groups.everyone);
  replicas_ = std::move(groups.replicas);
}

Mesh Mesh::meta(const MeshShape& shape, int rank) {
  check_shape(shape, shape.size());
  require(rank >= 0 && rank < shape.size(), "rank {} of a mesh of {}", rank,
          shape.size());
  Mesh mesh;
  mesh.shape_ = shape;
  mesh.rank_ = rank;
  Groups groups =
      make_groups(shape, rank, [](std::string name, int, int rank_in_group, int size) {
        return make_meta_group(std::move(name), rank_in_group, size);
      });
  mesh.groups_ = std::move(groups.of_axis);
  mesh.everyone_ = std::move(groups.everyone);
  mesh.replicas_ = std::move(groups.replicas);
  return mesh;
}

}  // namespace trireme::comm
