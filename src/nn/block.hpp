// Block: one pre-norm transformer block,
//   x1 = x + attention(norm1(x)),  y = x1 + mlp(norm2(x1)).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "nn/attention.hpp"
#include "nn/mlp.hpp"
#include "nn/norm.hpp"

namespace trireme::nn {

struct BlockConfig {
  NormConfig norm1, norm2;
  AttentionConfig attention;
  MlpConfig mlp;
};

class Block {
 public:
  struct Saved {
    Norm::Saved norm1, norm2;
    Attention::Saved attention;
    Mlp::Saved mlp;
  };

  Block(const BlockConfig& config, const parallel::TensorRegion& region,
        const TensorView& cos_sin);

  // y_TD (written) from x_TD, both outside the region. x_TD lives as long as what is
  // saved. With Pass::recompute full, `saved` may be thrown away and made once more.
  void forward(Pass& pass, const TensorView& x_TD, const TensorView& y_TD,
               Saved& saved) const;
  // dx_TD (written) from dy_TD, which lives in pass.kept(); they may be the same memory
  // unless weight gradients are deferred. Both outside the region.
  void backward(Pass& pass, const TensorView& dy_TD, const Saved& saved,
                const TensorView& dx_TD);

  void collect(std::vector<Param*>& params);

 private:
  // Where a norm's output goes: it is kept for backward unless the region gathers it, or
  // it is computed again.
  Arena& normed_arena(Pass& pass) const;
  // The norm's output once more, inside the region.
  TensorView normed_again(Pass& pass, const Norm& norm, const Norm::Saved& saved) const;

  const parallel::TensorRegion& region_;
  Norm norm1_, norm2_;
  Attention attention_;
  Mlp mlp_;
};

}  // namespace trireme::nn
