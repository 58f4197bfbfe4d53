// MpiOperation: messages and sums of the routes on which a rank talks to few others.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "comm/mpi/mpi_group.hpp"
#include "comm/mpi/operation.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::comm {
namespace {

std::int64_t width_of(DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); }

}  // namespace

// Rows lie in staging memory as ranks lie in the subtree: my own, then those of my
// children, who are 1, 2, 4, ... behind me.
void MpiOperation::post_rows(int lane) {
  const int size = group_.size();
  const BinomialNode place = binomial_node(group_.rank(), call_.peer, size);
  const std::int64_t n = call_.plan.elements, width = width_of(call_.dtype);
  const bool combines = call_.plan.combines;
  if (phase_of(lane) == Phase::to_parent) {
    const int mine = combines ? 1 : subtree_size(place, size);
    if (place.parent >= 0) send(lane, place.parent, staging(lane, 0, n), {0, mine * n});
    return;
  }
  std::memcpy(staging(lane, 0, n), from_, static_cast<std::size_t>(n * width));
  int row = 1;
  for_each_child(place, size, ChildOrder::nearest_first, [&](int distance, int ranks) {
    const int child = (group_.rank() + distance) % size;
    const int theirs = combines ? 1 : ranks;
    receive(lane, child, staging(lane, combines ? row : distance, n), {0, theirs * n});
    ++row;
  });
}

void MpiOperation::sum_rows(int lane) {
  const int size = group_.size();
  const BinomialNode place = binomial_node(group_.rank(), call_.peer, size);
  const std::int64_t n = call_.plan.elements, width = width_of(call_.dtype);
  const bool is_root = place.parent < 0;
  std::byte* const first = staging(lane, 0, n);
  int held = size;
  if (call_.plan.combines) {
    held = 1;
    for_each_child(place, size, ChildOrder::nearest_first, [&](int, int) { ++held; });
  } else if (!is_root) {
    return;
  } else if (call_.peer != 0) {  // rank order, not the tree's
    const auto row = static_cast<std::ptrdiff_t>(n * width);
    std::rotate(first, first + (size - call_.peer) * row, first + size * row);
  }
  reduce_parts({first, call_.dtype, {held, n}},
               {is_root ? to_ : first, call_.dtype, {n}});
}

// A scatter leaves its sums in the tensor that it was given, from where each rank takes
// its part: the ranks before it need no more than what lies before the end of theirs.
std::byte* MpiOperation::chained(int rank, Range& range) const {
  if (row_of(call_.kind).to.extent == Extent::whole) return to_;
  range.end =
      std::min(range.end, split_range(call_.plan.elements, group_.size(), rank).end);
  range.end = std::max(range.begin, range.end);
  return from_;
}

void MpiOperation::post_chain(int lane) {
  const int rank = group_.rank(), last = group_.size() - 1;
  const Range chunk = call_.plan.chunk(0, lanes_[static_cast<std::size_t>(lane)].chunk);
  const std::int64_t sum_bytes = chunk.count() * width_of(sum_dtype(call_.dtype));
  Range range = chunk;
  switch (phase_of(lane)) {
    case Phase::from_previous:
      if (rank > 0) receive_bytes(lane, rank - 1, staging(lane, 0, 0), sum_bytes);
      return;
    case Phase::to_next:
      if (rank < last) send_bytes(lane, rank + 1, staging(lane, 0, 0), sum_bytes);
      return;
    case Phase::from_next: {
      std::byte* const base = chained(rank, range);
      if (rank < last) receive(lane, rank + 1, base, range);
      return;
    }
    case Phase::to_previous: {
      std::byte* const base = chained(rank - 1, range);
      if (rank > 0) send(lane, rank - 1, base, range);
      return;
    }
    case Phase::to_root:
      if (call_.peer == last) return;
      if (rank == last) send(lane, call_.peer, to_, range);
      if (rank == call_.peer) receive(lane, last, to_, range);
      return;
    default: return;
  }
}

// The sum of the ranks before me lies in row 0, in the accumulator's dtype. The last rank
// rounds the sum of all.
void MpiOperation::add_own(int lane) {
  const int rank = group_.rank();
  Range range = call_.plan.chunk(0, lanes_[static_cast<std::size_t>(lane)].chunk);
  const std::int64_t n = range.count();
  if (n == 0) return;
  const DType wide = sum_dtype(call_.dtype);
  std::byte* const row = staging(lane, 0, 0);
  const TensorView own(from_ + range.begin * width_of(call_.dtype), call_.dtype, {n});
  Stream stream;
  kernels::copy(stream, own, {rank == 0 ? row : row + n * width_of(wide), wide, {n}});
  if (rank > 0) reduce_parts({row, wide, {2, n}}, {row, wide, {n}});
  if (rank != group_.size() - 1) return;
  std::byte* const out = row_of(call_.kind).to.extent == Extent::whole ? to_ : from_;
  kernels::copy(stream, {row, wide, {n}},
                {out + range.begin * width_of(call_.dtype), call_.dtype, {n}});
}

void MpiOperation::keep_own_part(Range chunk) {
  const Range part = split_range(call_.plan.elements, group_.size(), group_.rank());
  const Range mine = {std::max(chunk.begin, part.begin), std::min(chunk.end, part.end)};
  if (mine.end <= mine.begin) return;
  const std::int64_t width = width_of(call_.dtype);
  const std::byte* const from = from_ + mine.begin * width;
  std::byte* const to = to_ + (mine.begin - part.begin) * width;
  if (from != to) std::memcpy(to, from, static_cast<std::size_t>(mine.count() * width));
}

// Blocks go around the end in two messages.
void MpiOperation::post_blocks(int lane) {
  const int rank = group_.rank(), size = group_.size();
  const Lane& at = lanes_[static_cast<std::size_t>(lane)];
  const std::int64_t part = call_.plan.elements / size;
  if (at.phase == 0) {
    std::byte* const own = to_ + rank * part * width_of(call_.dtype);
    if (own != from_)
      std::memcpy(own, from_, static_cast<std::size_t>(part * width_of(call_.dtype)));
  }
  const BlockStep step = block_step(rank, size, at.phase);
  const auto pieces = [&](int first, const auto& f) {
    const int before_end = std::min(step.blocks, size - first);
    f(Range{first * part, (first + before_end) * part});
    f(Range{0, (step.blocks - before_end) * part});
  };
  pieces(step.from, [&](Range range) { receive(lane, step.from, to_, range); });
  pieces(rank, [&](Range range) { send(lane, step.to, to_, range); });
}

}  // namespace trireme::comm
