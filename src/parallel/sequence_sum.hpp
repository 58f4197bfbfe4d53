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

  int size() const { return group_ == nullptr ? 1 : group_->size(); }
  // x (floating, dense) = sum of x over the ranks, in place. Returns when it is there.
  void sum(Stream& stream, const TensorView& x) const {
    if (size() > 1) group_->all_reduce(stream, x).wait();
  }

 private:
  comm::Group* group_ = nullptr;
};

}  // namespace trireme::parallel
