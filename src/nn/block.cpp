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
  const bool gathers = region_.outside() == Place::varying && region_.size() > 1;
  return gathers ? pass.scratch : pass.saved;
}

TensorView Block::forward(Pass& pass, const TensorView& x_TD, Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  const DType dtype = x_TD.dtype();
  // 1. attention
  const TensorView x1_TD = pass.saved.take(dtype, x_TD.shape(), "block.x1");
  const TensorView h1_TD = normed_arena(pass).take(dtype, x_TD.shape(), "block.h1");
  norm1_.forward(pass, x_TD, h1_TD, saved.norm1);
  attention_.forward(pass, h1_TD, x_TD, x1_TD, saved.attention);
  // 2. feed-forward
  const TensorView y_TD = pass.saved.take(dtype, x_TD.shape(), "block.y");
  const TensorView h2_TD = normed_arena(pass).take(dtype, x_TD.shape(), "block.h2");
  norm2_.forward(pass, x1_TD, h2_TD, saved.norm2);
  if (moe_) {
    moe_->forward(pass, h2_TD, x1_TD, y_TD, saved.moe);
  } else {
    mlp_->forward(pass, h2_TD, x1_TD, y_TD, saved.mlp);
  }
  return y_TD;
}

void Block::backward(Pass& pass, const TensorView& dy_TD, const Saved& saved,
                     const TensorView& dx_TD) {
  const ArenaScope scope(pass.scratch);
  // 2. feed-forward; the gradient over the skip connection is added by the norm
  const TensorView dx1_TD = pass.scratch.take(dy_TD.dtype(), dy_TD.shape(), "block.dx1");
  {
    const ArenaScope inner(pass.scratch);
    const TensorView dh2_TD = moe_ ? moe_->backward(pass, dy_TD, saved.moe)
                                   : mlp_->backward(pass, dy_TD, saved.mlp);
    norm2_.backward(pass, dh2_TD, saved.norm2, dy_TD, dx1_TD);
  }
  // 1. attention
  const TensorView dh1_TD = attention_.backward(pass, dx1_TD, saved.attention);
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

}  // namespace trireme::nn
