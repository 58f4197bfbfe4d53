// ExactSums: sums of gradients that no order of microbatches and replicas changes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/memory.hpp"
#include "optim/flat_layout.hpp"

namespace trireme::optim {

// Each contribution is rounded to a multiple of `grid`, by itself; sums of such numbers
// are exact in f64 as long as they stay below 512, and so the same in any order. Source:
// Demmel and Nguyen, "Fast Reproducible Floating-Point Summation", 2013, with one bin
// that is known beforehand. A number of 128 or more is rounded more coarsely: the sum is
// as good as any, but may depend on the order. NaN and infinity stay what they are.
class ExactSums {
 public:
  static constexpr double grid = 0x1p-44;

  // Of the layout's trained unsharded gradients.
  ExactSums(Stream& stream, const FlatLayout& layout, Device device);

  void clear();
  // The flat parameter's sums += values, f32 or f64: [elements].
  void add(const FlatParameter& flat, const TensorView& values);
  // values = the sums over all replicas, rounded once to their type: [elements] of the
  // layout's trained unsharded gradients.
  void finish(const TensorView& values);

  std::size_t bytes() const { return sums_.bytes(); }
  std::size_t workspace_bytes() const { return staging_.bytes(); }

 private:
  Stream& stream_;
  const FlatLayout& layout_;
  std::int64_t chunk_;  // elements that are added at a time
  Buffer sums_;
  Buffer staging_;  // [2, chunk]: the numbers to be added, and the negative offset
};

}  // namespace trireme::optim
