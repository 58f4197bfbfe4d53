// WideNorm: RMSNorm over all heads of a token at once, which tensor ranks hold in parts.
// SPDX-License-Identifier: Apache-2.0
// Legend: T rows, E columns on this rank.
#pragma once

#include "nn/pass.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

// What is squared and summed is summed over the ranks once more, in rank order. Columns
// that several ranks hold count where they are `owned`, and their gradients are parts of
// a sum, as those of shared key/value heads are.
class WideNorm {
 public:
  struct Saved {
    TensorView x_TE, rstd_T;
  };

  // gain: of this rank's columns. width: of whole rows. owned: of this rank's columns.
  WideNorm(Param gain, std::int64_t width, double eps, Range owned,
           const parallel::TensorRegion& region);

  // x_TE becomes its norm. Collective over the region.
  void forward(Pass& pass, const TensorView& x_TE, Saved& saved) const;
  // The gradient of the norm becomes that of its input. Collective over the region.
  void backward(Pass& pass, const TensorView& d_TE, const Saved& saved);

  void collect(std::vector<Param*>& params) { params.push_back(&gain_); }

 private:
  Param gain_;
  std::int64_t width_;
  double eps_;
  Range owned_;
  const parallel::TensorRegion& region_;
};

}  // namespace trireme::nn
