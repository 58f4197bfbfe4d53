// Mlp: the feed-forward half of a block, SwiGLU or GELU, split by hidden units.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "nn/linear.hpp"
#include "nn/skip.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

enum class Activation : std::uint8_t { swiglu, gelu };

struct MlpConfig {
  std::int64_t hidden = 0;        // D
  std::int64_t feed_forward = 0;  // F
  Activation activation = Activation::swiglu;
  bool bias = false;
  double deviation = 0.02, output_deviation = 0.02;  // of the initial weights
  // Names of the tensors without ".weight"; gate is used by SwiGLU only.
  std::string gate, up, down;
  LinearPrecision products{};  // of the projections
};

class Mlp {
 public:
  // A tensor that is computed again (Pass::recompute) is empty.
  struct Saved {
    TensorView x_TD;  // input, all tokens
    TensorView u_TU;  // before the activation; U = 2 F (gate, up) or F on this rank
    TensorView a_TF;  // after it
    Linear::Saved up, down;
  };

  Mlp(const MlpConfig& config, const parallel::TensorRegion& region);

  // As Attention::forward and backward.
  void forward(Pass& pass, const TensorView& x_TD, const Skip& skip, Saved& saved) const;
  TensorView backward(Pass& pass, const TensorView& dy_TD, Saved saved);

  void collect(std::vector<Param*>& params);
  void collect(std::vector<Linear*>& layers);

 private:
  void project_up(Pass& pass, Saved& saved) const;      // x -> u
  void activate(Pass& pass, const Saved& saved) const;  // u -> a

  MlpConfig config_;
  const parallel::TensorRegion& region_;
  std::int64_t width_;  // F on this rank
  Linear up_, down_;
  Param up_bias_, down_bias_;
};

}  // namespace trireme::nn
