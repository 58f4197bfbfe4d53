// Mlp: the feed-forward half of a block, split by hidden units.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "nn/feed_forward.hpp"
#include "nn/residual.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

struct MlpConfig {
  std::int64_t hidden = 0;        // D
  std::int64_t feed_forward = 0;  // F
  Activation activation = Activation::swiglu;
  bool bias = false;
  double deviation = 0.02, output_deviation = 0.02;  // of the initial weights
  // Names of the tensors without ".weight"; gate is used by gated activations, and may be
  // up's: see up_param().
  std::string gate, up, down;
  LinearPrecision products{};  // of the projections
};

class Mlp {
 public:
  // A tensor that is computed again (Pass::recompute) is empty.
  struct Saved {
    TensorView x_TD;  // input, this rank's rows outside the region
    FeedForward<Linear>::Saved hidden;
  };

  Mlp(const MlpConfig& config, const parallel::TensorRegion& region);

  // These do as Attention::forward and backward do.
  void forward(Pass& pass, const TensorView& x_TD, const Residual& residual,
               Saved& saved) const;
  TensorView backward(Pass& pass, const TensorView& dy_TD, Saved saved);

  void collect(std::vector<Param*>& params);
  void collect(std::vector<Fp8Operands*>& layers);
  void attach(const AdapterConfig& adapters);

 private:
  MlpConfig config_;
  const parallel::TensorRegion& region_;
  FeedForward<Linear> feed_;
  Param down_bias_;
};

}  // namespace trireme::nn
