// The collectives that edges are made of.
// SPDX-License-Identifier: Apache-2.0
#include "parallel/edge.hpp"

#include <array>

#include "kernels/elementwise.hpp"

namespace trireme::parallel::edge {
namespace {

Shape with_rows(const TensorView& x, std::int64_t rows) {
  Shape shape = x.shape();
  shape[0] = rows;
  return shape;
}

std::int64_t shard_rows(const comm::Group& group, const TensorView& x) {
  require(x.dim(0) % group.size() == 0, "{} rows cannot be split over {} ranks of '{}'",
          x.dim(0), group.size(), group.name());
  return x.dim(0) / group.size();
}

}  // namespace

Transfer same(comm::Group&, Stream&, Arena&, const TensorView& x) { return Transfer(x); }

Transfer all_reduce(comm::Group& group, Stream& stream, Arena&, const TensorView& x) {
  if (group.size() == 1) return Transfer(x);
  return {x, group.all_reduce(stream, x)};
}

Transfer all_gather(comm::Group& group, Stream& stream, Arena& arena,
                    const TensorView& x) {
  if (group.size() == 1) return Transfer(x);
  const TensorView full =
      arena.take(x.dtype(), with_rows(x, x.dim(0) * group.size()), "all_gather");
  return {full, group.all_gather(stream, x, full)};
}

Transfer reduce_scatter(comm::Group& group, Stream& stream, Arena& arena,
                        const TensorView& x) {
  if (group.size() == 1) return Transfer(x);
  const TensorView shard =
      arena.take(x.dtype(), with_rows(x, shard_rows(group, x)), "reduce_scatter");
  return {shard, group.reduce_scatter(stream, x, shard)};
}

Transfer keep_my_shard(comm::Group& group, Stream&, Arena&, const TensorView& x) {
  const std::int64_t rows = shard_rows(group, x);
  return Transfer(x.rows(rows * group.rank(), rows));
}

Transfer pad_to_full(comm::Group& group, Stream& stream, Arena& arena,
                     const TensorView& x) {
  if (group.size() == 1) return Transfer(x);
  const TensorView full =
      arena.take(x.dtype(), with_rows(x, x.dim(0) * group.size()), "pad_to_full");
  kernels::fill(stream, full, 0.0);
  kernels::copy(stream, x, full.rows(x.dim(0) * group.rank(), x.dim(0)));
  return Transfer(full);
}

std::span<const Edge> all() {
  static constexpr std::array edges = {
      copy_in,         sum_to_invariant,    sum_to_replicate,
      sum_to_shard,    gather_to_replicate, gather_to_invariant,
      shard_replicate, shard_invariant};
  return edges;
}

}  // namespace trireme::parallel::edge
