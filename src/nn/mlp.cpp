// Mlp: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/mlp.hpp"

#include "kernels/activation.hpp"
#include "nn/layout.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {

Mlp::Mlp(const MlpConfig& config, const parallel::TensorRegion& region)
    : config_(config), region_(region) {
  const Range units = region.part(config.feed_forward);
  const Shape whole = {config.feed_forward, config.hidden};
  const Initializer normal{Initializer::Kind::normal, config.deviation};
  width_ = units.count();
  Param up = row_split_param(config.up + ".weight", whole, units, normal);
  if (config.activation == Activation::swiglu) {  // one product for both: [gate; up]
    Slab gate = up.slabs.front();
    gate.tensor = config.gate + ".weight";
    up.slabs.front().local_begin = {width_, 0};
    up.slabs.insert(up.slabs.begin(), gate);
    up.shape = {2 * width_, config.hidden};
  }
  up_.weight = std::move(up);
  down_.weight =
      column_split_param(config.down + ".weight", {config.hidden, config.feed_forward},
                         units, {Initializer::Kind::normal, config.output_deviation});
  up_.set_precision(config.products);
  down_.set_precision(config.products);
  if (config.bias) {
    require(config.activation == Activation::gelu, "SwiGLU has no biases");
    up_bias_ = row_split_param(config.up + ".bias", {config.feed_forward}, units, {});
    down_bias_ = unsplit_param(region, config.down + ".bias", {config.hidden}, {});
  }
}

void Mlp::project_up(Pass& pass, Saved& saved) const {
  up_.forward(pass, saved.x_TD, up_bias_.value, saved.u_TU, saved.up);
}

void Mlp::activate(Pass& pass, const Saved& saved) const {
  if (config_.activation == Activation::swiglu) {
    kernels::swiglu(pass.stream, saved.u_TU, saved.a_TF);
  } else {
    kernels::gelu(pass.stream, saved.u_TU, saved.a_TF);
  }
}

void Mlp::forward(Pass& pass, const TensorView& x_TD, const Skip& skip,
                  Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType dtype = x_TD.dtype();
  const Recompute& again = pass.recompute;
  const std::int64_t T = pass.tokens();
  // 1. enter the region
  saved.x_TD = region_.enter(stream, pass.kept_unless(again.norm), x_TD).wait();
  // 2. u = x W^T + b
  saved.u_TU = pass.kept_unless(again.up).take(dtype, {T, up_.weight.shape[0]}, "mlp.u");
  saved.a_TF = pass.kept_unless(again.activation).take(dtype, {T, width_}, "mlp.a");
  // 3. activation; made with the product unless backward makes it from u alone: on a GPU
  // the bits may differ
  if (config_.activation == Activation::gelu && !again.activation) {
    up_.forward_gelu(pass, saved.x_TD, up_bias_.value, saved.u_TU, saved.a_TF, saved.up);
  } else {
    project_up(pass, saved);
    activate(pass, saved);
  }
  // 4. y = a Wdown^T, a partial sum
  const TensorView partial_TD =
      pass.scratch.take(dtype, {T, config_.hidden}, "mlp.partial");
  const auto product = [&](const Range& rows, const TensorView& to_TD) {
    down_.forward(pass, saved.a_TF.rows(rows.begin, rows.count()), {}, to_TD, saved.down);
  };
  // 5. leave the region with it
  const TensorView sum_TD =
      region_.leave(stream, pass.scratch, partial_TD, product).wait();
  // 6. residual and bias
  skip.join(pass, sum_TD, down_bias_.value);
  if (again.norm) saved.x_TD = {};
  if (again.up) saved.u_TU = {};
  if (again.activation) saved.a_TF = {};
}

TensorView Mlp::backward(Pass& pass, const TensorView& dy_TD, Saved saved) {
  Stream& stream = pass.stream;
  const DType dtype = dy_TD.dtype();
  const std::int64_t T = pass.tokens();
  const TensorView dx_all_TD = pass.scratch.take(dtype, {T, config_.hidden}, "mlp.dx");
  // 6. bias
  if (config_.bias) {
    pass.weight_gradients.post(stream, down_bias_, [this, dy_TD](Stream& on) {
      kernels::add_column_sums(on, dy_TD, down_bias_.gradient);
    });
  }
  // 5. leave
  const TensorView dy_all_TD = region_.leave_backward(stream, pass.kept(), dy_TD).wait();
  // 2., 3. once more, if they were not kept
  if (saved.u_TU.empty()) {
    saved.u_TU = pass.scratch.take(dtype, {T, up_.weight.shape[0]}, "mlp.u");
    project_up(pass, saved);
  }
  if (saved.a_TF.empty()) {
    saved.a_TF = pass.kept().take(dtype, {T, width_}, "mlp.a");
    activate(pass, saved);
  }
  // 4. down projection
  const TensorView da_TF = pass.kept().take(dtype, {T, width_}, "mlp.da");
  const Linear::Gradient dy = down_.output_gradient(pass, dy_all_TD);
  const bool gelu = config_.activation == Activation::gelu;
  if (gelu) {  // 3. with it
    down_.gelu_input_gradient(pass, dy, saved.u_TU, da_TF);
  } else {
    down_.input_gradient(pass, dy, da_TF);
  }
  down_.post_weight_gradient(pass, dy, saved.a_TF, saved.down);
  // 3. activation
  TensorView du_TU = da_TF;
  if (!gelu) {
    du_TU = pass.kept().take(dtype, saved.u_TU.shape(), "mlp.du");
    kernels::swiglu_backward(stream, da_TF, saved.u_TU, du_TU);
  }
  // 2. up projection: the input gradient first, so that 1. its communication overlaps
  const Linear::Gradient du = up_.output_gradient(pass, du_TU);
  auto dx = region_.enter_backward(stream, pass.scratch, dx_all_TD,
                                   [&](const Range& rows, const TensorView& to_TD) {
                                     up_.input_gradient(pass, du.rows(rows), to_TD);
                                   });
  up_.post_gradients(pass, du, saved.x_TD, saved.up, up_bias_);
  return dx.wait();
}

void Mlp::collect(std::vector<Param*>& params) {
  params.push_back(&up_.weight);
  if (config_.bias) params.push_back(&up_bias_);
  params.push_back(&down_.weight);
  if (config_.bias) params.push_back(&down_bias_);
}

void Mlp::collect(std::vector<Linear*>& layers) {
  layers.push_back(&up_);
  layers.push_back(&down_);
}

}  // namespace trireme::nn
