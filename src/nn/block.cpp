// Block: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/block.hpp"

namespace trireme::nn {

Block::Block(const BlockConfig& config, const parallel::TensorRegion& region,
             const TensorView& cos_sin, const parallel::ExpertAxes& axes, DType dtype,
             Device device)
    : region_(region),
      norm1_(config.norm1, region),
      norm2_(config.norm2, region),
      attention_(config.attention, region, cos_sin) {
  if (config.moe) {
    moe_.emplace(*config.moe, region, axes, dtype, device);
  } else {
    mlp_.emplace(config.mlp, region);
  }
}

Arena& Block::normed_arena(Pass& pass) const {
  return pass.kept_unless(region_.gathers() || pass.recompute.norm);
}

TensorView Block::normed_again(Pass& pass, const Norm& norm,
                               const Norm::Saved& saved) const {
  const TensorView h_TD =
      pass.kept().take(saved.x_TD.dtype(), saved.x_TD.shape(), "block.h");
  norm.again(pass, saved, h_TD);
  return region_.enter(pass.stream, pass.kept(), h_TD).wait();
}

void Block::forward(Pass& pass, const TensorView& x_TD, const TensorView& y_TD,
                    Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  const DType dtype = x_TD.dtype();
  // 1. attention
  const TensorView x1_TD = pass.saved.take(dtype, x_TD.shape(), "block.x1");
  const TensorView h1_TD = normed_arena(pass).take(dtype, x_TD.shape(), "block.h1");
  norm1_.forward(pass, x_TD, h1_TD, saved.norm1);
  const TensorView h2_TD = normed_arena(pass).take(dtype, x_TD.shape(), "block.h2");
  attention_.forward(pass, h1_TD, {x_TD, x1_TD, &norm2_, h2_TD, &saved.norm2},
                     saved.attention);
  // 2. feed-forward, whose norm was made with the sum before it
  if (moe_) {
    moe_->forward(pass, h2_TD, {x1_TD, y_TD}, saved.moe);
  } else {
    mlp_->forward(pass, h2_TD, {x1_TD, y_TD}, saved.mlp);
  }
}

void Block::backward(Pass& pass, const TensorView& dy_TD, const Saved& saved,
                     const TensorView& dx_TD) {
  const ArenaScope scope(pass.scratch);
  // 2. feed-forward; the gradient over the residual connection is added by the norm
  const TensorView dx1_TD = pass.kept().take(dy_TD.dtype(), dy_TD.shape(), "block.dx1");
  {
    const ArenaScope inner(pass.scratch);
    const auto again = [&] { return normed_again(pass, norm2_, saved.norm2); };
    TensorView dh2_TD;
    if (moe_) {
      Moe::Saved moe = saved.moe;
      if (moe.x_TD.empty()) moe.x_TD = again();
      dh2_TD = moe_->backward(pass, dy_TD, moe);
    } else {
      Mlp::Saved mlp = saved.mlp;
      if (mlp.x_TD.empty()) mlp.x_TD = again();
      dh2_TD = mlp_->backward(pass, dy_TD, mlp);
    }
    norm2_.backward(pass, dh2_TD, saved.norm2, dy_TD, dx1_TD);
  }
  // 1. attention
  Attention::Saved attention = saved.attention;
  if (attention.x_TD.empty()) attention.x_TD = normed_again(pass, norm1_, saved.norm1);
  const TensorView dh1_TD = attention_.backward(pass, dx1_TD, attention);
  norm1_.backward(pass, dh1_TD, saved.norm1, dx1_TD, dx_TD);
}

void Block::collect(std::vector<Param*>& params) {
  norm1_.collect(params);
  attention_.collect(params);
  norm2_.collect(params);
  if (moe_) {
    moe_->collect(params);
  } else {
    mlp_->collect(params);
  }
}

void Block::collect(std::vector<Fp8Operands*>& layers) {
  attention_.collect(layers);
  if (mlp_) mlp_->collect(layers);
  if (moe_) moe_->collect(layers);
}

}  // namespace trireme::nn
