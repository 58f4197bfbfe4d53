// How a collective is cut into messages.
// SPDX-License-Identifier: Apache-2.0
// The transport and the planner must agree on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.hpp"
#include "base/split.hpp"

namespace trireme::comm {

enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  all_to_all,
  send,
  receive
};
inline constexpr std::size_t collective_kinds = 7;

constexpr std::string_view name_of(Collective kind) {
  switch (kind) {
    case Collective::all_reduce: return "all_reduce";
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::all_gather: return "all_gather";
    case Collective::broadcast: return "broadcast";
    case Collective::all_to_all: return "all_to_all";
    case Collective::send: return "send";
    case Collective::receive: return "receive";
  }
  return "?";
}

// A reduction of up to this many bytes sends everything to everyone: one message time.
inline constexpr std::int64_t direct_bytes = 16 << 10;
// Larger ones move in chunks, so that the local sum of one chunk, still in cache,
// overlaps the receipt of the next, and staging memory does not grow with the message.
inline constexpr std::int64_t reduce_chunk_bytes = 512 << 10;
inline constexpr std::int64_t least_reduce_chunk_bytes = 64 << 10;
// Staging of one chunk on many ranks, where chunks get shorter for it.
inline constexpr std::int64_t reduce_lane_bytes = 4 << 20;
inline constexpr std::int64_t broadcast_chunk_bytes = 1 << 20;
// Message sizes are `int` in MPI.
inline constexpr std::int64_t largest_message_bytes = 1 << 30;
// Chunks of one collective that are in flight together.
inline constexpr int max_lanes = 4;

// The whole tensor is cut into parts (one a rank), a part into chunks; chunk c travels in
// lane c % lanes.
struct CollectivePlan {
  bool direct = false;          // a reduction in which every rank sums everything
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
// a broadcast only.
CollectivePlan plan_collective(Collective kind, DType dtype, std::int64_t elements,
                               int rank, int size, int root = 0);

// The binomial tree of a broadcast over `size` ranks. Rank v = (rank - root) mod size
// hears from v minus its lowest set bit and tells v + m for every power of two m below
// that bit. `first_child` is the largest such m with v + m < size (0: a leaf); the others
// are its halves.
struct TreePlace {
  int parent = -1;  // as a rank of the group; -1 at the root
  int first_child = 0;
  int position = 0;  // v
};
TreePlace tree_place(int rank, int root, int size);

}  // namespace trireme::comm
