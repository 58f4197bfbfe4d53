// Block: one transformer block, attention and a feed-forward half.
// SPDX-License-Identifier: Apache-2.0
// It computes x1 = x + attention(norm1(x)) and y = x1 + mlp(norm2(x1)), where the
// feed-forward half may be an MoE layer. Each half may have a norm of its output, too, or
// in place of that of its input: x1 = x + output_norm1(attention(x)). With `parallel`
// both halves read the block's input: y = x + attention(norm1(x)) + mlp(norm2(x)).
#pragma once

#include <optional>
#include <vector>

#include "nn/attention.hpp"
#include "nn/gated_delta_net.hpp"
#include "nn/latent_attention.hpp"
#include "nn/mlp.hpp"
#include "nn/moe.hpp"
#include "nn/norm.hpp"

namespace trireme::nn {

struct BlockConfig {
  std::optional<NormConfig> norm1, norm2, output_norm1, output_norm2;
  bool parallel = false;
  DropoutConfig dropout1{}, dropout2{};  // of what each half adds to the stream
  AttentionConfig attention;
  // In place of the attention:
  std::optional<LatentAttentionConfig> latent;
  std::optional<GatedDeltaNetConfig> linear;
  MlpConfig mlp;
  std::optional<MoeConfig> moe;  // in place of the mlp
};

class Block {
 public:
  struct Saved {
    TensorView x_TD, x1_TD;
    Norm::Saved norm1, norm2, output_norm1, output_norm2;
    Attention::Saved attention;
    LatentAttention::Saved latent;
    GatedDeltaNet::Saved linear;
    Mlp::Saved mlp;
    Moe::Saved moe;
  };

  // axes, dtype and device: see Moe; unused without experts.
  Block(const BlockConfig& config, const parallel::TensorRegion& region,
        const RotaryTable& rotary, const parallel::ExpertAxes& axes = {},
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
  // Makes the adapters of its linear layers, before Params are collected.
  void attach(const AdapterConfig& adapters);
  // The MoE layer, or null.
  Moe* moe() { return moe_ ? &*moe_ : nullptr; }

 private:
  // Where a norm's output goes: it is kept for backward unless it is computed again.
  Arena& normed_arena(Pass& pass) const;
  // norm(x), or x where there is no norm.
  TensorView normed(Pass& pass, const std::optional<Norm>& norm, const TensorView& x_TD,
                    Norm::Saved& saved) const;
  // The same once more.
  TensorView normed_again(Pass& pass, const std::optional<Norm>& norm,
                          const TensorView& x_TD, const Norm::Saved& saved) const;
  // Back through the norm of a half's output: dy_TD itself where there is none, else in
  // pass.kept().
  static TensorView output_gradient(Pass& pass, std::optional<Norm>& norm,
                                    const TensorView& dy_TD, const Norm::Saved& saved);
  // dx_TD (written) = residual_TD + the gradient over the norm of a half's input.
  static void input_gradient(Pass& pass, std::optional<Norm>& norm,
                             const TensorView& dh_TD, const Norm::Saved& saved,
                             const TensorView& residual_TD, const TensorView& dx_TD);
  void attention_forward(Pass& pass, const TensorView& h_TD, const Residual& residual,
                         Saved& saved) const;
  // What attention read in forward, from what it saved or once more.
  TensorView attention_input(Pass& pass, const TensorView& saved_TD,
                             const Saved& saved) const;
  // The attention half: dh1_TD, in pass.scratch.
  TensorView attention_backward(Pass& pass, const TensorView& dy_TD, const Saved& saved);
  // The feed-forward half: dh2_TD, in pass.scratch.
  TensorView feed_forward_backward(Pass& pass, const TensorView& dy_TD,
                                   const Saved& saved);

  const parallel::TensorRegion& region_;
  bool parallel_;
  DropoutConfig dropout1_, dropout2_;
  std::optional<Norm> norm1_, norm2_, output_norm1_, output_norm2_;
  std::optional<Attention> attention_;     // or
  std::optional<LatentAttention> latent_;  // or
  std::optional<GatedDeltaNet> linear_;
  std::optional<Mlp> mlp_;  // or
  std::optional<Moe> moe_;
};

}  // namespace trireme::nn
