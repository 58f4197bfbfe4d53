// Mesh: the ranks of the job as a grid with named axes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <string_view>

#include "base/device.hpp"
#include "comm/group.hpp"
#include "comm/world.hpp"

namespace trireme::comm {

enum class Axis : int { pipeline, data, context, tensor };
inline constexpr int axes = 4;
std::string_view name_of(Axis axis);

// Ranks along each axis. The product is the size of the world.
struct MeshShape {
  int pipeline = 1, data = 1, context = 1, tensor = 1;

  int size() const { return pipeline * data * context * tensor; }
  int extent(Axis axis) const;
  // Coordinate of a rank: tensor is fastest, then context, then data, pipeline slowest,
  // so that the ranks of a tensor group sit next to each other, inside a node.
  int coordinate(int rank, Axis axis) const;
  bool operator==(const MeshShape&) const = default;
};

// One group per axis: the ranks that differ in that coordinate only.
class Mesh {
 public:
  // Collective over the world. Throws Error(resources) unless shape.size() ==
  // world.size().
  Mesh(World& world, const MeshShape& shape);
  // As rank `rank` of a mesh that does not exist: for planning. Collectives do nothing.
  static Mesh meta(const MeshShape& shape, int rank);

  const MeshShape& shape() const { return shape_; }
  int rank() const { return rank_; }
  int coordinate(Axis axis) const { return shape_.coordinate(rank_, axis); }
  Group& group(Axis axis) const { return *groups_[static_cast<std::size_t>(axis)]; }
  // All ranks of the mesh.
  Group& everyone() const { return *everyone_; }
  // Data x context: the ranks that hold the same weights. Rank order: context fastest.
  Group& replicas() const { return *replicas_; }

 private:
  Mesh() = default;
  MeshShape shape_;
  int rank_ = 0;
  std::array<std::unique_ptr<Group>, axes> groups_;
  std::unique_ptr<Group> everyone_, replicas_;
};

}  // namespace trireme::comm
