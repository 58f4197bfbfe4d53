// Cuts a collective into messages.
// SPDX-License-Identifier: Apache-2.0
#include "comm/collective.hpp"

#include <algorithm>

namespace trireme::comm {
namespace {

int children(const TreePlace& place, int size) {
  int count = 0;
  for (int m = place.first_child; m > 0; m /= 2)
    if (place.position + m < size) ++count;
  return count;
}

// In one phase, by `rank`, of all chunks.
std::int64_t elements_sent(Phase phase, const CollectiveRow& row,
                           const CollectivePlan& plan, int rank, int size, int root) {
  const std::int64_t all = plan.elements, peers = size - 1;
  const std::int64_t own = split_range(all, size, rank).count();
  switch (phase) {
    case Phase::summed_parts: return plan.direct ? all * peers : all - own;
    case Phase::parts: return all - own;
    case Phase::own_part:
      if (plan.direct) return 0;
      return own * (row.to.ranks == Ranks::root ? (rank == root ? 0 : 1) : peers);
    case Phase::to_children: return all * children(tree_place(rank, root, size), size);
    case Phase::to_peer: return all;
    case Phase::none:
    case Phase::from_parent:
    case Phase::from_peer: return 0;
  }
  return 0;
}

std::int64_t chunk_limit(const CollectiveRow& row, int size) {
  if (row.reduces())
    return std::clamp(reduce_lane_bytes / size, least_reduce_chunk_bytes,
                      reduce_chunk_bytes);
  return row.has(Phase::to_children) ? broadcast_chunk_bytes : largest_message_bytes;
}

}  // namespace

CollectivePlan plan_collective(Collective kind, DType dtype, std::int64_t elements,
                               int rank, int size, int root) {
  const CollectiveRow& row = row_of(kind);
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  CollectivePlan plan;
  plan.elements = elements;
  plan.direct = kind == Collective::all_reduce && elements * width <= direct_bytes;
  const bool whole =
      plan.direct || row.has(Phase::to_children) || row.peer == Peer::other;
  plan.parts = whole ? 1 : size;
  const std::int64_t part = divide_up(elements, plan.parts);
  const std::int64_t longest_chunk = chunk_limit(row, size) / width;
  plan.chunks = std::max<std::int64_t>(1, divide_up(part, longest_chunk));
  plan.lanes = static_cast<int>(std::min<std::int64_t>(plan.chunks, max_lanes));
  if (row.reduces()) plan.lane_bytes = divide_up(part, plan.chunks) * size * width;
  for (const Phase phase : row.phases)
    plan.bytes_sent += elements_sent(phase, row, plan, rank, size, root) * width;
  return plan;
}

TreePlace tree_place(int rank, int root, int size) {
  TreePlace place;
  place.position = (rank - root + size) % size;
  const int v = place.position;
  int reach = 1;  // lowest set bit of v; past the end for the root
  while (reach < size && (v & reach) == 0) reach *= 2;
  if (v != 0) place.parent = (v - reach + root) % size;
  place.first_child = reach / 2;
  return place;
}

}  // namespace trireme::comm
