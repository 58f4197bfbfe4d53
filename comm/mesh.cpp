// Mesh: cuts the world into groups along its axes.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mesh.hpp"

#include <algorithm>
#include <utility>

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

void check_shape(const MeshShape& shape, const Folding& folding, int ranks) {
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
  const int replicas = shape.data * shape.context;
  const int shard = folding.shard, expert = folding.expert;
  require(shard >= 1 && replicas % shard == 0, Status::resources,
          "data {} x context {} ranks cannot be cut into shard groups of {}", shape.data,
          shape.context, shard);
  require(expert >= 1 && replicas % expert == 0, Status::resources,
          "data {} x context {} ranks cannot be cut into expert groups of {}", shape.data,
          shape.context, expert);
  require(shard % expert == 0 || expert % shard == 0, Status::resources,
          "shard groups of {} and expert groups of {}: one must divide the other", shard,
          expert);
}

// Who sends to whom: stages to their neighbours, and around in interleaved schedules; the
// ring of attention; the exchange of experts.
Links links_of(std::string_view name) {
  if (name == "pipeline" || name == "context") return Links::ring;
  return name == "experts" ? Links::all : Links::none;
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

void Mesh::make_groups(const Maker& make) {
  for (int a = 0; a < axes; ++a) {
    const auto axis = static_cast<Axis>(a);
    const int step = stride(shape_, axis);
    groups_[static_cast<std::size_t>(a)] =
        make(std::string(name_of(axis)),
             RankList::line(rank_ - coordinate(axis) * step, shape_.extent(axis), step));
  }
  const auto fold = [&](Fold which, const char* name, const RankList& members) {
    folds_[static_cast<std::size_t>(which)] = make(name, members.normal());
  };
  const int replicas = shape_.data * shape_.context, T = shape_.tensor;
  const int stage = coordinate(Axis::pipeline), t = coordinate(Axis::tensor);
  const int replica = coordinate(Axis::data) * shape_.context + coordinate(Axis::context);
  const int ranks_of_stage = stride(shape_, Axis::pipeline);
  const int stage_first = stage * ranks_of_stage;
  fold(Fold::everyone, "everyone", RankList::line(0, shape_.size()));
  fold(Fold::alone, "alone", RankList::line(rank_, 1));
  const RankList same_weights = RankList::line(stage_first + t, replicas, T);
  fold(Fold::replicas, "replicas", same_weights);
  // A cut of `among`, of which this rank is number `index`, into neighbours and across.
  const auto cut = [&](Fold inside, const char* inside_name, Fold across,
                       const char* across_name, const RankList& among, int index,
                       int size) {
    const int step = among.inner_stride;
    fold(inside, inside_name,
         RankList::line(among.rank(index / size * size), size, step));
    const RankList others =
        RankList::line(among.rank(index % size), among.size() / size, size * step);
    fold(across, across_name, others);
    return others;
  };
  cut(Fold::shards, "shards", Fold::copies, "copies", same_weights, replica,
      folding_.shard);
  const int expert = folding_.expert;
  const RankList holders = cut(Fold::experts, "experts", Fold::expert_replicas,
                               "expert replicas", same_weights, replica, expert);
  cut(Fold::expert_shards, "expert shards", Fold::expert_copies, "expert copies", holders,
      replica / expert, std::max(folding_.shard / expert, 1));
  const int first_shard = replica / folding_.shard * folding_.shard;
  fold(Fold::spread, "spread",
       {stage_first + first_shard * T, folding_.shard, T, T, T > 1 ? 1 : 0});
  const int last = shape_.pipeline - 1;
  const bool end = last > 0 && (stage == 0 || stage == last);
  fold(Fold::embedding, "embedding",
       end ? RankList::line(rank_ - stage_first, 2, last * ranks_of_stage)
           : RankList::line(rank_, 1));
}

bool GroupUse::needs_communicator(std::string_view group) const {
  const std::pair<std::string_view, bool> named[] = {
      {name_of(Axis::pipeline), pipeline},  {name_of(Axis::data), data},
      {name_of(Axis::context), context},    {"replicas", replicas},
      {"expert replicas", expert_replicas}, {"embedding", embedding}};
  for (const auto& [name, used] : named)
    if (name == group) return used;
  return true;
}

Mesh::Mesh(World& world, const MeshShape& shape, const Folding& folding, Device device,
           Transport transport, const GroupUse& use)
    : shape_(shape),
      folding_(folding),
      rank_(world.rank()),
      device_(device),
      transport_(device.is_cuda() ? transport : Transport::mpi) {
  check_shape(shape, folding, world.size());
  // Whether a group has one rank is not the same on all ranks (the embedding group):
  // those that make one do it together.
  make_groups([&](const std::string& name, const RankList& members) {
    const bool split = name == "embedding" ? shape.pipeline > 1 : members.size() > 1;
    if (!split) return make_meta_group(name, 0, 1);
    const Links links = links_of(name);
    return make_group(world, name, members,
                      {.device = device,
                       .transport = transport,
                       .links = links,
                       .collectives = use.needs_communicator(name)});
  });
}

Mesh Mesh::meta(const MeshShape& shape, int rank, const Folding& folding, Device device,
                Transport transport) {
  check_shape(shape, folding, shape.size());
  require(rank >= 0 && rank < shape.size(), "rank {} of a mesh of {}", rank,
          shape.size());
  Mesh mesh;
  mesh.shape_ = shape;
  mesh.folding_ = folding;
  mesh.rank_ = rank;
  mesh.device_ = device;
  mesh.transport_ = device.is_cuda() ? transport : Transport::mpi;
  mesh.make_groups([&](const std::string& name, const RankList& members) {
    const int rank_in_group = members.index_of(rank), size = members.size();
    return device.is_cuda() ? make_planned_group(name, rank_in_group, size, transport)
                            : make_meta_group(name, rank_in_group, size);
  });
  return mesh;
}

std::vector<Group*> Mesh::groups() const {
  std::vector<Group*> all;
  for (const auto& group : groups_) {
    if (group->size() > 1) all.push_back(group.get());
  }
  for (const auto& group : folds_) {
    if (group->size() > 1) all.push_back(group.get());
  }
  return all;
}

}  // namespace trireme::comm
