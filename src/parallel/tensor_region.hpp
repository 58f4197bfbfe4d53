// TensorRegion: the one seam between modules and tensor or sequence parallelism.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/split.hpp"
#include "parallel/edge.hpp"

namespace trireme::parallel {

// A module enters the region before a column-split GEMM and leaves it after a row-split
// one. Outside, activations are the same on every rank of the tensor axis (Shoeybi et
// al., 2019), or, with sequence parallelism, each rank has its part of the rows
// (Korthikanti et al., 2022). Rows are the B * S tokens of a microbatch, cut into equal
// contiguous parts.
//
// A sum over the region may be given the product that makes its terms. It is then made in
// `chunks` parts of rows, and a part travels while the next is multiplied. Rows do not
// depend on each other and the parts send the same bytes. What comes together on entering
// may likewise be given the product that reads it: with several parts this rank's own
// rows are multiplied while those of the others travel.
class TensorRegion {
 public:
  // Writes rows [begin, end) of a product to `to`.
  using Product = std::function<void(const Range& rows, const TensorView& to)>;
  // Multiplies rows [begin, end) of what enters, `x`.
  using Reader = std::function<void(const Range& rows, const TensorView& x)>;

  TensorRegion(comm::Group& tensor, bool sequence, int chunks = 1)
      : group_(tensor),
        chunks_(chunks),
        enter_(sequence ? edge::gather_to_replicate : edge::copy_in),
        leave_(sequence ? edge::sum_to_shard : edge::sum_to_invariant) {}

  // That of one rank, which has every weight whole. It lives as long as the program.
  static const TensorRegion& whole();

  Transfer enter(Stream& stream, Arena& arena, const TensorView& x) const {
    return enter_.forward(group_, stream, arena, x);
  }
  // Brings x together, which it returns, and has `read` read all of its rows: once as a
  // whole, or in parts where that is asked for, in which case each is read alone, in no
  // certain order.
  TensorView enter(Stream& stream, Arena& arena, const TensorView& x_TD, bool in_parts,
                   const Reader& read) const;
  Transfer leave(Stream& stream, Arena& arena, const TensorView& y) const {
    return leave_.forward(group_, stream, arena, y);
  }
  // Does the same with y_TD, which is made here.
  Transfer leave(Stream& stream, Arena& arena, const TensorView& y_TD,
                 const Product& product) const {
    return sum(leave_.forward, stream, arena, y_TD, product);
  }
  Transfer enter_backward(Stream& stream, Arena& arena, const TensorView& dx) const {
    return enter_.backward(group_, stream, arena, dx);
  }
  Transfer enter_backward(Stream& stream, Arena& arena, const TensorView& dx_TD,
                          const Product& product) const {
    return sum(enter_.backward, stream, arena, dx_TD, product);
  }
  Transfer leave_backward(Stream& stream, Arena& arena, const TensorView& dy) const {
    return leave_.backward(group_, stream, arena, dy);
  }

  // Where activations lie outside the region, and so whether the gradient of an unsplit
  // weight used there is complete on each rank (invariant) or a part of it (replicate).
  Place outside() const { return enter_.source; }
  Place unsplit_weight() const {
    return outside() == Place::varying ? Place::replicate : Place::invariant;
  }
  // The rows of [0, tokens) that this rank holds outside.
  Range outside_rows(std::int64_t tokens) const {
    return outside() == Place::varying ? part(tokens) : Range{0, tokens};
  }

  // Whether there is more than one rank, and whether entering brings rows together.
  bool divided() const { return size() > 1; }
  bool gathers() const { return divided() && outside() == Place::varying; }
  // Whether a product whose result is summed is made in parts.
  bool cuts() const { return divided() && chunks_ > 1; }
  // This rank's part of [0, extent): heads, hidden units, entries of the vocabulary.
  Range part(std::int64_t extent) const { return split_range(extent, size(), rank()); }
  std::int64_t largest_part(std::int64_t extent) const {
    return divide_up(extent, size());
  }
  // Whether [begin, end) of [0, extent) lies in the part of one rank, whichever it is.
  bool in_one_part(std::int64_t extent, Range range) const;
  // Of what every rank has, one rank's copy counts in norms and checkpoints.
  bool counts_here() const { return rank() == 0; }

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  // The rows of every rank, in rank order: [size * T, ...]. No gradient passes through.
  TensorView gather_rows(Stream& stream, Arena& arena, const TensorView& x) const {
    return edge::all_gather(group_, stream, arena, x).wait();
  }
  // The x of every rank, in rank order: [ranks, x's shape]. No gradient passes through.
  TensorView gather(Stream& stream, Arena& arena, const TensorView& x) const;
  // x = the sum of every rank's, in place. No gradient passes through.
  void sum(Stream& stream, const TensorView& x) const {
    group_.all_reduce(stream, x).wait();
  }
  // x = the largest of every rank's, in place.
  void largest(Stream& stream, const TensorView& x) const {
    group_.all_reduce(stream, x, comm::Reduce::max).wait();
  }

 private:
  // `change` is an all-reduce, or with sequence parallelism a reduce-scatter.
  Transfer sum(Edge::Change change, Stream& stream, Arena& arena, const TensorView& x_TD,
               const Product& product) const;

  comm::Group& group_;
  int chunks_;
  Edge enter_, leave_;
};

}  // namespace trireme::parallel
