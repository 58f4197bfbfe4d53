// SequenceSum: sums over the ranks that share sequences (the context axis).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/group.hpp"

namespace trireme::parallel {

class SequenceSum {
 public:
  SequenceSum() = default;  // every rank holds whole sequences
  // Each rank of `context`, which outlives this, holds an equal part of every sequence.
  explicit SequenceSum(comm::Group& context) : group_(&context) {}

  bool divided() const { return size() > 1; }
  // The length of sequences of which every rank holds `part`.
  std::int64_t whole(std::int64_t part) const { return part * size(); }
  // Each rank's share of what all of them add up.
  double share(double total) const { return total / size(); }
  // x (floating, dense) = sum of x over the ranks, in place. Returns when it is there.
  void sum(Stream& stream, const TensorView& x) const {
    if (divided()) group_->all_reduce(stream, x).wait();
  }

 private:
  int size() const { return group_ == nullptr ? 1 : group_->size(); }

  comm::Group* group_ = nullptr;
};

}  // namespace trireme::parallel
