// The table of collectives, and how one is cut into messages.
// SPDX-License-Identifier: Apache-2.0
// The transports and the planner read the same table and must agree on the cut.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.hpp"
#include "base/split.hpp"

namespace trireme::comm {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  reduce,
  broadcast,
  all_to_all,
  send,
  receive
};

enum class Reduce : std::uint8_t { sum, max };

// What the tensor of a rank is of the collective's whole tensor, and which ranks have
// one.
enum class Extent : std::uint8_t { whole, part };
enum class Ranks : std::uint8_t { all, root, others, none };
struct Side {
  Extent extent;
  Ranks ranks;

  // Whether `rank` gives, or gets, anything. `root`: of the call.
  constexpr bool has(int rank, int root) const {
    return ranks == Ranks::all || (ranks == Ranks::root && rank == root) ||
           (ranks == Ranks::others && rank != root);
  }
};

// The messages that a rank sends together, a chunk at a time.
enum class Phase : std::uint8_t {
  none,
  parts,         // to each rank its part of my tensor
  summed_parts,  // the same; then each rank sums what came, in rank order
  own_part,      // my part of the result to the ranks that get the result
  from_parent,   // nothing: the tensor comes down a tree from the root
  to_children,   // what came from the parent
  to_peer,
  from_peer,
  // of the routes below
  from_children,  // nothing: rows of the ranks below come up a tree
  to_parent,      // these and my own
  from_previous,  // nothing: the sum of the ranks before comes; then mine is added
  to_next,        // the sum so far
  from_next,      // nothing: the sum of all comes back
  to_previous,
  to_root,  // the last rank's sum of all, where the root is another
  blocks    // all blocks that I hold, to the rank that lies 1, 2, 4, ... before me
};

// How a collective travels. The bits of its result are the same on all of them.
enum class Route : std::uint8_t {
  pairwise,    // in the phases of its row below: to each rank its part
  direct,      // every rank sends everything to everyone and sums it all
  tree,        // rows of small reductions come up a binomial tree in rank order, are
               // summed at its root, and the sum comes down
  ring_chain,  // the sum goes from rank to rank, each of which adds its own
  bruck        // blocks of a gather double in each of log2 N phases (Bruck et al., 1997)
};

// From how many ranks on which route is taken. Tests set them to see all routes on few.
struct RouteLimits {
  int direct_ranks = 4;     // up to so many, small reductions are direct
  int pairwise_ranks = 64;  // up to so many, everyone sends to everyone
};
// Of this process; alike on all ranks.
RouteLimits& route_limits();

// Which other rank a call names.
enum class Peer : std::uint8_t { none, root, other };

// All that transports, counts and checks know of a collective.
struct CollectiveRow {
  std::string_view name;
  Side from, to;
  std::array<Phase, 2> phases;
  Peer peer = Peer::none;
  bool one_tensor = false;  // it works in place on a single tensor
  bool exchange = false;    // its two whole tensors must not be one

  constexpr bool has(Phase phase) const {
    return phases[0] == phase || phases[1] == phase;
  }
  constexpr bool reduces() const { return has(Phase::summed_parts); }
};

// In the order of Collective. Sends and receives are last: they are no collectives of the
// whole group.
inline constexpr auto collectives = std::to_array<CollectiveRow>({
    {.name = "all_reduce",
     .from = {Extent::whole, Ranks::all},
     .to = {Extent::whole, Ranks::all},
     .phases = {Phase::summed_parts, Phase::own_part},
     .one_tensor = true},
    {.name = "reduce_scatter",
     .from = {Extent::whole, Ranks::all},
     .to = {Extent::part, Ranks::all},
     .phases = {Phase::summed_parts, Phase::none}},
    {.name = "all_gather",
     .from = {Extent::part, Ranks::all},
     .to = {Extent::whole, Ranks::all},
     .phases = {Phase::own_part, Phase::none}},
    {.name = "reduce",
     .from = {Extent::whole, Ranks::all},
     .to = {Extent::whole, Ranks::root},
     .phases = {Phase::summed_parts, Phase::own_part},
     .peer = Peer::root,
     .one_tensor = true},
    {.name = "broadcast",
     .from = {Extent::whole, Ranks::root},
     .to = {Extent::whole, Ranks::others},
     .phases = {Phase::from_parent, Phase::to_children},
     .peer = Peer::root,
     .one_tensor = true},
    {.name = "all_to_all",
     .from = {Extent::whole, Ranks::all},
     .to = {Extent::whole, Ranks::all},
     .phases = {Phase::parts, Phase::none},
     .exchange = true},
    {.name = "send",
     .from = {Extent::whole, Ranks::all},
     .to = {Extent::whole, Ranks::none},
     .phases = {Phase::to_peer, Phase::none},
     .peer = Peer::other,
     .one_tensor = true},
    {.name = "receive",
     .from = {Extent::whole, Ranks::none},
     .to = {Extent::whole, Ranks::all},
     .phases = {Phase::from_peer, Phase::none},
     .peer = Peer::other,
     .one_tensor = true},
});
inline constexpr std::size_t collective_kinds = collectives.size();
static_assert(collective_kinds == static_cast<std::size_t>(Collective::receive) + 1);

constexpr const CollectiveRow& row_of(Collective kind) {
  return collectives[static_cast<std::size_t>(kind)];
}
constexpr std::string_view name_of(Collective kind) { return row_of(kind).name; }

// A reduction of up to this many bytes is small: latency is its cost.
inline constexpr std::int64_t direct_bytes = 16 << 10;
// Larger ones move in chunks, so that the local sum of one chunk, still in cache,
// overlaps the receipt of the next, and staging memory does not grow with the message.
inline constexpr std::int64_t reduce_chunk_bytes = 512 << 10;
inline constexpr std::int64_t least_reduce_chunk_bytes = 64 << 10;
// Staging of one chunk on many ranks, where chunks get shorter for it.
inline constexpr std::int64_t reduce_lane_bytes = 4 << 20;
inline constexpr std::int64_t broadcast_chunk_bytes = 1 << 20;
// The root of a tree holds a row of each rank: so many bytes together, or rows that are
// shorter than a heartbeat.
inline constexpr std::int64_t tree_bytes = 1 << 20, tree_row_bytes = 64;
// Message sizes are `int` in MPI.
inline constexpr std::int64_t largest_message_bytes = 1 << 30;
// Chunks of one collective that are in flight together.
inline constexpr int max_lanes = 4;

// The whole tensor is cut into parts (one a rank), a part into chunks; chunk c travels in
// lane c % lanes.
struct CollectivePlan {
  Route route = Route::pairwise;
  bool combines = false;        // on a tree: each rank sends one row up, of its subtree
  std::int64_t elements = 0;    // of the whole tensor
  std::int64_t parts = 1;       // 1: every rank works on the whole
  std::int64_t chunks = 1;      // of each part
  int lanes = 1;                // chunks in flight
  std::int64_t lane_bytes = 0;  // staging of one lane
  std::int64_t bytes_sent = 0;  // by this rank

  std::int64_t staging_bytes() const { return lane_bytes * lanes; }
  // Elements of part `part` in the whole tensor, and of its chunk `chunk`.
  Range part(std::int64_t index) const {
    return parts == 1 ? Range{0, elements} : split_range(elements, parts, index);
  }
  Range chunk(std::int64_t part_index, std::int64_t chunk_index) const {
    const Range whole = part(part_index);
    const Range piece = split_range(whole.count(), chunks, chunk_index);
    return {whole.begin + piece.begin, whole.begin + piece.end};
  }
};

// `elements` of the whole tensor: the full one of a gather or scatter. `root` matters to
// collectives that have one, `reduce` to those that reduce.
CollectivePlan plan_collective(Collective kind, DType dtype, std::int64_t elements,
                               int rank, int size, int root = 0,
                               Reduce reduce = Reduce::sum);

// In which terms of `dtype` are summed.
DType sum_dtype(DType dtype);

// What a rank does for each chunk of a collective of `kind`, in order. Route::bruck: one
// phase for each power of two below `size`, all of them Phase::blocks.
std::span<const Phase> phases_of(Collective kind, Route route);
int count_phases(Collective kind, Route route, int size);
// The most messages that one phase of a chunk has, sent and received.
int most_messages(Route route, int size);

// The binomial tree of a broadcast over `size` ranks. Rank v = (rank - root) mod size
// hears from v minus its lowest set bit and tells v + m for every power of two m below
// that bit, as far as v + m < size: `first_child` is the largest m below it (0: a leaf),
// for_each_child() leaves out what lies beyond the end.
struct BinomialNode {
  int parent = -1;  // as a rank of the group; -1 at the root
  int first_child = 0;
  int relative_rank = 0;  // v
};
BinomialNode binomial_node(int rank, int root, int size);
// Ranks of the tree below and including this one: relative ranks from its own on.
int subtree_size(const BinomialNode& place, int size);

// Calls f(m, ranks) for each child of the node, v + m, whose subtree holds `ranks` ranks.
// An order of messages: gathers begin with the nearest child, broadcasts with the
// farthest, whose subtree is the largest.
enum class ChildOrder : bool { nearest_first, farthest_first };
template <class F>
void for_each_child(const BinomialNode& place, int size, ChildOrder order, const F& f) {
  const bool nearest_first = order == ChildOrder::nearest_first;
  for (int m = nearest_first ? 1 : place.first_child; m > 0 && m <= place.first_child;
       m = nearest_first ? 2 * m : m / 2)
    if (place.relative_rank + m < size) f(m, std::min(m, size - place.relative_rank - m));
}

// Route::bruck, phase `phase`: who holds what I lack, who lacks what I hold, and how
// many blocks travel, from those ranks' own on, around the end.
struct BlockStep {
  int to = 0, from = 0, blocks = 0;
};
BlockStep block_step(int rank, int size, int phase);

}  // namespace trireme::comm
