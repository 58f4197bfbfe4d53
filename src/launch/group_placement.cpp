// Counting the hosts of each group.
// SPDX-License-Identifier: Apache-2.0
#include "launch/group_placement.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/format.hpp"

namespace trireme::launch {
namespace {

// Which host each rank is on, by number, and the ranks of the fullest one.
struct Places {
  std::vector<int> host;
  int fullest = 0;
};

Places places_of(int ranks, const comm::HostTable& hosts) {
  Places places;
  std::map<std::string, std::pair<int, int>> known;  // number and ranks of a host
  for (int rank = 0; rank < ranks; ++rank) {
    auto& [number, held] =
        known.try_emplace(hosts.host(rank), static_cast<int>(known.size()), 0)
            .first->second;
    places.host.push_back(number);
    places.fullest = std::max(places.fullest, ++held);
  }
  return places;
}

// Groups of `size` ranks that lie `stride` apart: blocks of size x stride ranks follow
// each other, and hold `stride` groups each.
struct Kind {
  std::string_view name;
  int size = 1, stride = 1;
};

struct Spread {
  int first = 0;  // rank of the group
  int hosts = 0;
};

Spread widest(const Kind& kind, const Places& places) {
  Spread worst;
  const int ranks = static_cast<int>(places.host.size());
  for (int block = 0; block < ranks; block += kind.size * kind.stride)
    for (int first = block; first < block + kind.stride; ++first) {
      std::set<int> hosts;
      for (int i = 0; i < kind.size; ++i)
        hosts.insert(places.host[static_cast<std::size_t>(first + i * kind.stride)]);
      if (static_cast<int>(hosts.size()) > worst.hosts)
        worst = {first, static_cast<int>(hosts.size())};
    }
  return worst;
}

// Hosts that a group needs: one if it fits, else as many as where hosts as full as the
// fullest are filled with ranks that follow each other.
int enough(const Kind& kind, const Places& places) {
  if (kind.size <= places.fullest / kind.stride) return 1;
  Places best{.host = places.host, .fullest = places.fullest};
  for (std::size_t rank = 0; rank < best.host.size(); ++rank)
    best.host[rank] = static_cast<int>(rank) / best.fullest;
  return widest(kind, best).hosts;
}

}  // namespace

std::string placement_warning(const comm::MeshShape& shape, int shard,
                              const comm::HostTable& hosts) {
  const Places places = places_of(shape.size(), hosts);
  for (const Kind& kind :
       {Kind{"tensor", shape.tensor, 1}, Kind{"context", shape.context, shape.tensor},
        Kind{"shard", shard, shape.tensor}}) {
    const Spread worst = widest(kind, places);
    const int needed = enough(kind, places);
    if (worst.hosts <= needed) continue;
    const std::string step =
        kind.stride == 1 ? "" : format(" in steps of {}", kind.stride);
    return format(
        "the {} group of ranks {} to {}{} lies on {} hosts, where {} would do, and its "
        "messages cross the network: fill each host with ranks that follow each other "
        "(srun --distribution=block, mpirun --map-by slot) and start as many on each as "
        "groups of {} fill",
        kind.name, worst.first, worst.first + (kind.size - 1) * kind.stride, step,
        worst.hosts, needed, kind.size * kind.stride);
  }
  return "";
}

std::string long_ring_warning(int shard) {
  constexpr int long_ring = 512;
  if (shard < long_ring) return "";
  return format(
      "weights are shared out over {} ranks: each gather and each reduction of a unit "
      "goes around a ring of as many, and waits for {} messages one after the other, "
      "whatever the unit's size: parallel.sharding_strategy = \"HYBRID_SHARD\" with a "
      "smaller parallel.shard_group sends shorter rounds, where memory allows it",
      shard, shard - 1);
}

}  // namespace trireme::launch
