// Cuts a collective into messages.
// SPDX-License-Identifier: Apache-2.0
#include "comm/collective.hpp"

#include <algorithm>
#include <bit>

namespace trireme::comm {
namespace {

int children(const BinomialNode& place, int size) {
  int count = 0;
  for_each_child(place, size, ChildOrder::nearest_first, [&](int, int) { ++count; });
  return count;
}

// In one phase, by `rank`, of all chunks.
std::int64_t elements_sent(Phase phase, const CollectiveRow& row,
                           const CollectivePlan& plan, int rank, int size, int root) {
  const std::int64_t all = plan.elements, peers = size - 1;
  const std::int64_t own = split_range(all, size, rank).count();
  const BinomialNode place = binomial_node(rank, root, size);
  switch (phase) {
    case Phase::summed_parts:
      return plan.route == Route::direct ? all * peers : all - own;
    case Phase::parts: return all - own;
    case Phase::own_part:
      return own * (row.to.ranks == Ranks::root ? (rank == root ? 0 : 1) : peers);
    case Phase::to_children: return all * children(place, size);
    case Phase::to_parent:
      return place.parent < 0 ? 0 : all * (plan.combines ? 1 : subtree_size(place, size));
    case Phase::to_peer: return all;
    case Phase::to_previous:
      if (rank == 0) return 0;
      return row.to.extent == Extent::part ? split_range(all, size, rank).begin : all;
    case Phase::to_root: return rank == size - 1 && root != rank ? all : 0;
    case Phase::blocks: return own * peers;
    case Phase::none:
    case Phase::from_parent:
    case Phase::from_children:
    case Phase::from_previous:
    case Phase::to_next:  // wider than the tensor: see below
    case Phase::from_next:
    case Phase::from_peer: return 0;
  }
  return 0;
}

std::int64_t chunk_limit(const CollectiveRow& row, Route route, int size) {
  if (route == Route::ring_chain) return reduce_chunk_bytes;
  if (row.reduces())
    return std::clamp(reduce_lane_bytes / size, least_reduce_chunk_bytes,
                      reduce_chunk_bytes);
  return row.has(Phase::to_children) ? broadcast_chunk_bytes : largest_message_bytes;
}

Route route_of(Collective kind, std::int64_t bytes, int size, bool combines) {
  const RouteLimits& limits = route_limits();
  const bool small = bytes <= direct_bytes;
  if (kind == Collective::all_gather) {
    const bool many = size > (small ? limits.direct_ranks : limits.pairwise_ranks);
    return many && bytes <= largest_message_bytes ? Route::bruck : Route::pairwise;
  }
  if (!row_of(kind).reduces()) return Route::pairwise;
  if (kind != Collective::reduce_scatter && small) {
    if (size <= limits.direct_ranks)
      return kind == Collective::all_reduce ? Route::direct : Route::pairwise;
    if (combines || bytes <= tree_row_bytes || bytes * size <= tree_bytes)
      return Route::tree;
  }
  return size > limits.pairwise_ranks ? Route::ring_chain : Route::pairwise;
}

// Rows of a lane's staging memory, in the dtype of the tensor or, of a chain, its sum's.
std::int64_t staged_rows(const CollectivePlan& plan, int rank, int root, int size) {
  if (plan.route == Route::ring_chain) return 2;
  if (plan.route != Route::tree) return size;
  const BinomialNode place = binomial_node(rank, root, size);
  return plan.combines ? 1 + children(place, size) : subtree_size(place, size);
}

constexpr std::array direct_phases = {Phase::summed_parts};
constexpr std::array tree_phases = {Phase::from_children, Phase::to_parent,
                                    Phase::from_parent, Phase::to_children};
constexpr std::array chain_phases = {Phase::from_previous, Phase::to_next,
                                     Phase::from_next, Phase::to_previous};
constexpr std::array chain_to_root = {Phase::from_previous, Phase::to_next,
                                      Phase::to_root};
constexpr std::array block_phases = {Phase::blocks};

}  // namespace

RouteLimits& route_limits() {
  static RouteLimits limits;
  return limits;
}

std::span<const Phase> phases_of(Collective kind, Route route) {
  const std::span<const Phase> down = tree_phases;
  switch (route) {
    case Route::pairwise: {
      const auto& phases = row_of(kind).phases;
      return std::span(phases).first(phases[1] == Phase::none ? 1 : 2);
    }
    case Route::direct: return direct_phases;
    case Route::tree: return kind == Collective::reduce ? down.first(2) : down;
    case Route::ring_chain:
      if (kind == Collective::reduce) return chain_to_root;
      return chain_phases;
    case Route::bruck: return block_phases;
  }
  return {};
}

int count_phases(Collective kind, Route route, int size) {
  if (route == Route::bruck) return std::bit_width(static_cast<unsigned>(size - 1));
  return static_cast<int>(phases_of(kind, route).size());
}

int most_messages(Route route, int size) {
  switch (route) {
    case Route::pairwise:
    case Route::direct: return 2 * (size - 1);
    case Route::tree: return std::bit_width(static_cast<unsigned>(size - 1));
    case Route::ring_chain: return 1;
    case Route::bruck: return 4;
  }
  return 0;
}

CollectivePlan plan_collective(Collective kind, DType dtype, std::int64_t elements,
                               int rank, int size, int root, Reduce reduce) {
  const CollectiveRow& row = row_of(kind);
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  CollectivePlan plan;
  plan.elements = elements;
  // A maximum may be combined on the way up. Only for root 0: elsewhere a subtree wraps
  // around the end, and its terms are not neighbours in rank order.
  plan.combines = reduce == Reduce::max && root == 0;
  plan.route = route_of(kind, elements * width, size, plan.combines);
  const bool whole = plan.route == Route::direct || plan.route == Route::tree ||
                     plan.route == Route::ring_chain || row.has(Phase::to_children) ||
                     row.peer == Peer::other;
  plan.parts = whole ? 1 : size;
  const std::int64_t part = divide_up(elements, plan.parts);
  const auto sum_width = plan.route == Route::ring_chain
                             ? static_cast<std::int64_t>(size_of(sum_dtype(dtype)))
                             : width;
  const std::int64_t longest_chunk = chunk_limit(row, plan.route, size) / sum_width;
  plan.chunks = std::max<std::int64_t>(1, divide_up(part, longest_chunk));
  plan.lanes = static_cast<int>(std::min<std::int64_t>(plan.chunks, max_lanes));
  if (row.reduces())
    plan.lane_bytes =
        divide_up(part, plan.chunks) * staged_rows(plan, rank, root, size) * sum_width;
  for (const Phase phase : phases_of(kind, plan.route))
    plan.bytes_sent += elements_sent(phase, row, plan, rank, size, root) * width;
  if (plan.route == Route::ring_chain && rank < size - 1)
    plan.bytes_sent += elements * sum_width;
  return plan;
}

DType sum_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

BinomialNode binomial_node(int rank, int root, int size) {
  BinomialNode place;
  place.relative_rank = (rank - root + size) % size;
  const int v = place.relative_rank;
  int reach = 1;  // lowest set bit of v; past the end for the root
  while (reach < size && (v & reach) == 0) reach *= 2;
  if (v != 0) place.parent = (v - reach + root) % size;
  place.first_child = reach / 2;
  return place;
}

int subtree_size(const BinomialNode& place, int size) {
  const int reach = place.relative_rank == 0 ? size : 2 * place.first_child;
  return std::min(std::max(reach, 1), size - place.relative_rank);
}

BlockStep block_step(int rank, int size, int phase) {
  const int distance = 1 << phase;
  return {(rank + size - distance) % size, (rank + distance) % size,
          std::min(distance, size - distance)};
}

}  // namespace trireme::comm
