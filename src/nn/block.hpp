// Block: one pre-norm transformer block.
// SPDX-License-Identifier: Apache-2.0
// It computes x1 = x + attention(norm1(x)) and y = x1 + mlp(norm2(x1)),
// where the feed-forward half may be an MoE layer.
#pragma once

#include <optional>
#include <vector>

#include "nn/attention.hpp"
#include "nn/mlp.hpp"
#include "nn/moe.hpp"
#include "nn/norm.hpp"

namespace trireme::nn {

struct BlockConfig {
  NormConfig norm1, norm2;
  AttentionConfig attention;
  MlpConfig mlp;
  std::optional<MoeConfig> moe;  // in place of the mlp
};

class Block {
 public:
  struct Saved {
    Norm::Saved norm1, norm2;
    Attention::Saved attention;
    Mlp::Saved mlp;
    Moe::Saved moe;
  };

  // axes, dtype and device: see Moe; unused without experts.
  Block(const BlockConfig& config, const parallel::TensorRegion& region,
        const TensorView& cos_sin, const parallel::ExpertAxes& axes = {},
        DType dtype = DType::f32, Device device = Device::host());

  // y_TD (written) from x_TD, both outside the region. x_TD lives as long as what is
  // saved. With Pass::recompute full, `saved` may be thrown away and made once more.
  void forward(Pass& pass, const TensorView& x_TD, const TensorView& y_TD,
               Saved& saved) const;
  // dx_TD (written) from dy_TD, which lives in pass.kept(); they may be the same memory
  // unless weight gradients are deferred. Both outside the region.
  void backward(Pass& pass, const TensorView& dy_TD, const Saved& saved,
                const TensorView& dx_TD);

  void collect(std::vector<Param*>& params);
  // The linear layers that a recipe may have in FP8.
  void collect(std::vector<Fp8Operands*>& layers);
  // The MoE layer, or null.
  Moe* moe() { return moe_ ? &*moe_ : nullptr; }

 private:
  // Where a norm's output goes: it is kept for backward unless the region gathers it, or
  // it is computed again.
  Arena& normed_arena(Pass& pass) const;
  // The norm's output once more, inside the region.
  TensorView normed_again(Pass& pass, const Norm& norm, const Norm::Saved& saved) const;

  const parallel::TensorRegion& region_;
  Norm norm1_, norm2_;
  Attention attention_;
  std::optional<Mlp> mlp_;  // or
  std::optional<Moe> moe_;
};

}  // namespace trireme::nn
