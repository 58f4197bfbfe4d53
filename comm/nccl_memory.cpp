// What NCCL takes of a GPU's memory: counted in communicators, and an estimate in bytes.
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_memory.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "comm/ring_links.hpp"

namespace trireme::comm {
namespace {

// Links of a rank in a ring of `size`.
int links_of(int size) { return static_cast<int>(ring_links(0, size).size()); }

}  // namespace

// Users of other programs report 544 to 688 MB for each communicator of four A100s; a
// link has no more than 4 of its 16 or so channels, and one direction of them.
std::int64_t NcclCount::estimated_bytes() const {
  constexpr std::int64_t MiB = 1 << 20;
  return (communicators * std::int64_t{600} + links * std::int64_t{80}) * MiB;
}

NcclCount count_nccl(const MeshShape& shape, const Folding& folding,
                     const GroupUse& use) {
  using Members = std::vector<int>;
  std::set<Members> lists;
  const int T = shape.tensor, replicas = shape.data * shape.context;
  const auto add = [&](int size, const std::function<int(int)>& member,
                       bool used = true) {
    Members members;
    for (int i = 0; i < size; ++i) members.push_back(member(i));
    if (used && size > 1) lists.insert(members);
  };
  // Every `step`-th replica.
  const auto cut = [&](int size, int step, bool used = true) {
    add(
        size, [=](int i) { return i * step * T; }, used);
  };
  const int stage = replicas * T, shard = folding.shard, expert = folding.expert;
  const int expert_shard = std::max(shard / expert, 1);
  add(shape.size(), [](int i) { return i; });
  add(
      shape.pipeline, [=](int i) { return i * stage; }, use.pipeline);
  add(
      shape.pipeline > 1 ? 2 : 1, [&](int i) { return i * (shape.pipeline - 1) * stage; },
      use.embedding);
  add(T, [](int i) { return i; });
  cut(shape.data, shape.context, use.data);
  cut(shape.context, 1, use.context);
  cut(replicas, 1, use.replicas);
  cut(shard, 1);
  cut(replicas / shard, shard);
  cut(expert, 1);
  cut(replicas / expert, expert, use.expert_replicas);
  cut(expert_shard, expert);
  cut(replicas / expert / expert_shard, expert * expert_shard);
  add(T * shard, [=](int i) { return i % shard * T + i / shard; });
  return {static_cast<int>(lists.size()),
          links_of(shape.pipeline) + links_of(shape.context)};
}

}  // namespace trireme::comm
