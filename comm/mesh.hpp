// Mesh: the ranks of the job as a grid with named axes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/device.hpp"
#include "comm/group.hpp"
#include "comm/transport.hpp"
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

// How the replicas (data x context) are regrouped: neither is a factor of the world.
struct Folding {
  // Ranks next to each other that share the weights of a unit out among them (ZeRO).
  // Divides the number of replicas.
  int shard = 1;
  // Ranks next to each other that share the experts out among them. Divides the number
  // of replicas; shard divides it or it divides shard.
  int expert = 1;
  bool operator==(const Folding&) const = default;
};

// Which groups bring tensors of GPUs together; sends between neighbours do not count, nor
// do tensors of the host. A group that does not gets no communicator of NCCL, which takes
// some hundred MB of a GPU. Groups that are not named here always have a use.
struct GroupUse {
  bool pipeline = true, data = true, context = true;
  bool replicas = true, expert_replicas = true;
  bool embedding = true;

  bool needs_communicator(std::string_view group) const;
};

// One group per axis: the ranks that differ in that coordinate only; and the groups that
// are folded from the axes.
class Mesh {
 public:
  // Collective over the world. With a GPU as `device`, tensors of its groups may lie on
  // it, and go over `transport` (choose_transport()), in the groups that `use` has, alike
  // on all ranks. Throws Error(resources) unless shape.size() == world.size(), and for
  // NCCL in a build without it.
  Mesh(World& world, const MeshShape& shape, const Folding& folding = {},
       Device device = Device::host(), Transport transport = Transport::mpi,
       const GroupUse& use = {});
  // As rank `rank` of a mesh that does not exist: for planning. Collectives do nothing.
  // device and transport: what is planned for.
  static Mesh meta(const MeshShape& shape, int rank, const Folding& folding = {},
                   Device device = Device::host(), Transport transport = Transport::mpi);

  const MeshShape& shape() const { return shape_; }
  const Folding& folding() const { return folding_; }
  int rank() const { return rank_; }
  // Where the tensors of its groups may lie, beside the host.
  Device device() const { return device_; }
  // How tensors on GPUs travel; mpi where there are none.
  Transport transport() const { return transport_; }
  int coordinate(Axis axis) const { return shape_.coordinate(rank_, axis); }
  Group& group(Axis axis) const { return *groups_[static_cast<std::size_t>(axis)]; }
  // All ranks of the mesh.
  Group& everyone() const { return at(Fold::everyone); }
  // This rank alone.
  Group& alone() const { return at(Fold::alone); }
  // Data x context: the ranks that hold the same weights. Rank order: context fastest.
  Group& replicas() const { return at(Fold::replicas); }
  // The shard group, which shares out one copy of the weights, and the ranks that hold
  // the same shard in each copy.
  Group& shards() const { return at(Fold::shards); }
  Group& copies() const { return at(Fold::copies); }
  // The replicas that share the experts out, and the ranks that hold the same experts:
  // all of those, those that share out one copy of them, and the same shard in each copy.
  Group& experts() const { return at(Fold::experts); }
  Group& expert_replicas() const { return at(Fold::expert_replicas); }
  Group& expert_shards() const { return at(Fold::expert_shards); }
  Group& expert_copies() const { return at(Fold::expert_copies); }
  // Tensor x shards, tensor slowest: the ranks among which a weight of this stage, and of
  // this copy, is spread in any way.
  Group& spread() const { return at(Fold::spread); }
  // The embedding group: the first and the last pipeline stage, when this rank is on one
  // of them and they are two; else this rank alone.
  Group& embedding_group() const { return at(Fold::embedding); }

  // Every group of more than one rank, once each, for reports.
  std::vector<Group*> groups() const;

 private:
  enum class Fold : int {
    everyone,
    alone,
    replicas,
    shards,
    copies,
    experts,
    expert_replicas,
    expert_shards,
    expert_copies,
    spread,
    embedding
  };
  static constexpr int folds = 11;

  Mesh() = default;
  Group& at(Fold fold) const { return *folds_[static_cast<std::size_t>(fold)]; }
  // Makes the group called name, of these world ranks.
  using Maker =
      std::function<std::unique_ptr<Group>(const std::string&, const RankList&)>;
  void make_groups(const Maker& make);

  MeshShape shape_;
  Folding folding_;
  int rank_ = 0;
  Device device_;
  Transport transport_ = Transport::mpi;
  std::array<std::unique_ptr<Group>, axes> groups_;
  std::array<std::unique_ptr<Group>, folds> folds_;
};

}  // namespace trireme::comm
