// AmaxRegion: the largest magnitude of a tensor of which several ranks hold parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/memory.hpp"
#include "comm/group.hpp"

namespace trireme::parallel {

class AmaxRegion {
 public:
  AmaxRegion() = default;  // this rank holds whole tensors
  // The ranks of both groups, which outlive this, hold the activations and weights of a
  // microbatch.
  AmaxRegion(comm::Group& tensor, comm::Group& context)
      : tensor_(&tensor), context_(&context) {}

  // amax_1 (f32 [1], not negative) = the largest of all ranks', in place; NaN if any is.
  // The same bits on every rank.
  void agree(Stream& stream, Arena& scratch, const TensorView& amax_1) const;

 private:
  comm::Group* tensor_ = nullptr;
  comm::Group* context_ = nullptr;
};

}  // namespace trireme::parallel
