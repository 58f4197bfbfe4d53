// Block: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/block.hpp"

#include "kernels/elementwise.hpp"

namespace trireme::nn {

Block::Block(const BlockConfig& config, const parallel::TensorRegion& region,
             const RotaryTable& rotary, const parallel::ExpertAxes& axes, DType dtype,
             Device device)
    : region_(region),
      parallel_(config.parallel),
      dropout1_(config.dropout1),
      dropout2_(config.dropout2) {
  const auto add = [&](std::optional<Norm>& norm, const std::optional<NormConfig>& of) {
    if (of) norm.emplace(*of, region);
  };
  add(norm1_, config.norm1);
  add(norm2_, config.norm2);
  add(output_norm1_, config.output_norm1);
  add(output_norm2_, config.output_norm2);
  require(!parallel_ || !output_norm1_, "halves side by side have no norm of outputs");
  if (config.latent) {
    latent_.emplace(*config.latent, region, rotary);
  } else if (config.linear) {
    linear_.emplace(*config.linear, region);
  } else {
    attention_.emplace(config.attention, region, rotary);
  }
  if (config.moe) {
    moe_.emplace(*config.moe, region, axes, dtype, device);
  } else {
    mlp_.emplace(config.mlp, region);
  }
}

Arena& Block::normed_arena(Pass& pass) const {
  return pass.kept_unless(pass.recompute.norm);
}

TensorView Block::normed(Pass& pass, const std::optional<Norm>& norm,
                         const TensorView& x_TD, Norm::Saved& saved) const {
  if (!norm) return x_TD;
  const TensorView h_TD = normed_arena(pass).take(x_TD.dtype(), x_TD.shape(), "block.h");
  norm->forward(pass, x_TD, h_TD, saved);
  return h_TD;
}

TensorView Block::normed_again(Pass& pass, const std::optional<Norm>& norm,
                               const TensorView& x_TD, const Norm::Saved& saved) const {
  if (!norm) return x_TD;
  const TensorView h_TD = pass.kept().take(x_TD.dtype(), x_TD.shape(), "block.h");
  norm->again(pass, saved, h_TD);
  return h_TD;
}

void Block::attention_forward(Pass& pass, const TensorView& h_TD,
                              const Residual& residual, Saved& saved) const {
  if (latent_) {
    latent_->forward(pass, h_TD, residual, saved.latent);
  } else if (linear_) {
    linear_->forward(pass, h_TD, residual, saved.linear);
  } else {
    attention_->forward(pass, h_TD, residual, saved.attention);
  }
}

// Without a norm attention reads the block's input itself. Where weight gradients are
// deferred they read it when its memory may be gone: it is kept for them.
TensorView Block::attention_input(Pass& pass, const TensorView& saved_TD,
                                  const Saved& saved) const {
  const TensorView x_TD =
      saved_TD.empty() ? normed_again(pass, norm1_, saved.x_TD, saved.norm1) : saved_TD;
  if (norm1_ || region_.gathers() || !pass.weight_gradients.deferred()) return x_TD;
  const TensorView kept_TD = pass.kept().take(x_TD.dtype(), x_TD.shape(), "block.input");
  kernels::copy(pass.stream, x_TD, kept_TD);
  return kept_TD;
}

TensorView Block::attention_backward(Pass& pass, const TensorView& dy_TD,
                                     const Saved& saved) {
  if (latent_) {
    LatentAttention::Saved latent = saved.latent;
    latent.x_TD = attention_input(pass, latent.x_TD, saved);
    return latent_->backward(pass, dy_TD, latent);
  }
  if (linear_) {
    GatedDeltaNet::Saved linear = saved.linear;
    linear.x_TD = attention_input(pass, linear.x_TD, saved);
    return linear_->backward(pass, dy_TD, linear);
  }
  Attention::Saved attention = saved.attention;
  attention.x_TD = attention_input(pass, attention.x_TD, saved);
  return attention_->backward(pass, dy_TD, attention);
}

void Block::forward(Pass& pass, const TensorView& x_TD, const TensorView& y_TD,
                    Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  const DType dtype = x_TD.dtype();
  // 1. attention
  saved.x_TD = x_TD;
  saved.x1_TD = pass.saved.take(dtype, x_TD.shape(), "block.x1");
  const TensorView h1_TD = normed(pass, norm1_, x_TD, saved.norm1);
  TensorView h2_TD = saved.x1_TD;
  Residual first{x_TD, saved.x1_TD}, second{saved.x1_TD, y_TD};
  first.dropout = &dropout1_;
  second.dropout = &dropout2_;
  first.region = second.region = &region_;
  if (norm2_ && !parallel_) {  // it is made with the sum before it
    h2_TD = normed_arena(pass).take(dtype, x_TD.shape(), "block.h2");
    first.norm = &*norm2_;
    first.normed_TD = h2_TD;
    first.saved = &saved.norm2;
  }
  if (output_norm1_) {
    first.output_norm = &*output_norm1_;
    first.output_saved = &saved.output_norm1;
  }
  attention_forward(pass, h1_TD, first, saved);
  // 2. feed-forward
  if (parallel_) h2_TD = normed(pass, norm2_, x_TD, saved.norm2);
  if (output_norm2_) {
    second.output_norm = &*output_norm2_;
    second.output_saved = &saved.output_norm2;
  }
  if (moe_) {
    moe_->forward(pass, h2_TD, second, saved.moe);
  } else {
    mlp_->forward(pass, h2_TD, second, saved.mlp);
  }
}

TensorView Block::output_gradient(Pass& pass, std::optional<Norm>& norm,
                                  const TensorView& dy_TD, const Norm::Saved& saved) {
  if (!norm) return dy_TD;
  const TensorView d_TD = pass.kept().take(dy_TD.dtype(), dy_TD.shape(), "block.doutput");
  norm->backward(pass, dy_TD, saved, {}, d_TD);
  return d_TD;
}

void Block::input_gradient(Pass& pass, std::optional<Norm>& norm, const TensorView& dh_TD,
                           const Norm::Saved& saved, const TensorView& residual_TD,
                           const TensorView& dx_TD) {
  if (norm) {
    norm->backward(pass, dh_TD, saved, residual_TD, dx_TD);
  } else {
    kernels::add(pass.stream, residual_TD, dh_TD, dx_TD);
  }
}

TensorView Block::feed_forward_backward(Pass& pass, const TensorView& dy_TD,
                                        const Saved& saved) {
  const auto again = [&] {
    return normed_again(pass, norm2_, parallel_ ? saved.x_TD : saved.x1_TD, saved.norm2);
  };
  if (moe_) {
    Moe::Saved moe = saved.moe;
    if (moe.x_TD.empty()) moe.x_TD = again();
    return moe_->backward(pass, dy_TD, moe);
  }
  Mlp::Saved mlp = saved.mlp;
  if (mlp.x_TD.empty()) mlp.x_TD = again();
  return mlp_->backward(pass, dy_TD, mlp);
}

void Block::backward(Pass& pass, const TensorView& dy_TD, const Saved& saved,
                     const TensorView& dx_TD) {
  const ArenaScope scope(pass.scratch);
  // 2. feed-forward; the gradient over the residual connection is added by the norm
  const TensorView dx1_TD = pass.kept().take(dy_TD.dtype(), dy_TD.shape(), "block.dx1");
  {
    const ArenaScope inner(pass.scratch);
    const TensorView d2_TD = output_gradient(
        pass, output_norm2_, dropout_backward(pass, region_, dropout2_, dy_TD),
        saved.output_norm2);
    const TensorView dh2_TD = feed_forward_backward(pass, d2_TD, saved);
    input_gradient(pass, norm2_, dh2_TD, saved.norm2, dy_TD, dx1_TD);
  }
  // 1. attention
  const TensorView d1_TD = output_gradient(
      pass, output_norm1_,
      dropout_backward(pass, region_, dropout1_, parallel_ ? dy_TD : dx1_TD),
      saved.output_norm1);
  const TensorView dh1_TD = attention_backward(pass, d1_TD, saved);
  input_gradient(pass, norm1_, dh1_TD, saved.norm1, dx1_TD, dx_TD);
}

void Block::collect(std::vector<Param*>& params) {
  const auto collect_of = [&](std::optional<Norm>& norm) {
    if (norm) norm->collect(params);
  };
  collect_of(norm1_);
  if (latent_) {
    latent_->collect(params);
  } else if (linear_) {
    linear_->collect(params);
  } else {
    attention_->collect(params);
  }
  collect_of(output_norm1_);
  collect_of(norm2_);
  if (moe_) {
    moe_->collect(params);
  } else {
    mlp_->collect(params);
  }
  collect_of(output_norm2_);
}

void Block::attach(const AdapterConfig& adapters) {
  if (attention_) attention_->attach(adapters);
  if (latent_) latent_->attach(adapters);
  if (linear_) linear_->attach(adapters);
  if (mlp_) mlp_->attach(adapters);
  if (moe_) moe_->attach(adapters);
}

void Block::collect(std::vector<Fp8Operands*>& layers) {
  if (attention_) attention_->collect(layers);
  if (latent_) latent_->collect(layers);
  if (mlp_) mlp_->collect(layers);
  if (moe_) moe_->collect(layers);
}

}  // namespace trireme::nn
