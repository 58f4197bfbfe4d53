// Mlp: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/mlp.hpp"

#include "kernels/activation.hpp"
#include "nn/layout.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {

Mlp::Mlp(const MlpConfig& config, const parallel::TensorRegion& region)
    : config_(config), region_(region) {
  const Range units = split_range(config.feed_forward, region.size(), region.rank());
  const Shape whole = {config.feed_forward, config.hidden};
  const Initializer normal{Initializer::Kind::normal, config.deviation};
  width_ = units.count();
  up_ = row_split_param(config.up + ".weight", whole, units, normal);
  if (config.activation == Activation::swiglu) {  // one product for both: [gate; up]
    Slab gate = up_.slabs.front();
    gate.tensor = config.gate + ".weight";
    up_.slabs.front().local_begin = {width_, 0};
    up_.slabs.insert(up_.slabs.begin(), gate);
    up_.shape = {2 * width_, config.hidden};
  }
  down_ =
      column_split_param(config.down + ".weight", {config.hidden, config.feed_forward},
                         units, {Initializer::Kind::normal, config.output_deviation});
  if (config.bias) {
    require(config.activation == Activation::gelu, "SwiGLU has no biases");
    up_bias_ = row_split_param(config.up + ".bias", {config.feed_forward}, units, {});
    down_bias_ = unsplit_param(region, config.down + ".bias", {config.hidden}, {});
  }
}

void Mlp::project_up(Pass& pass, const Saved& saved) const {
  linear(pass.stream, saved.x_TD, up_.value, up_bias_.value, saved.u_TU);
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
  saved.u_TU = pass.kept_unless(again.up).take(dtype, {T, up_.shape[0]}, "mlp.u");
  saved.a_TF = pass.kept_unless(again.activation).take(dtype, {T, width_}, "mlp.a");
  // 3. activation; made with the product unless backward makes it from u alone: on a GPU
  // the bits may differ
  if (config_.activation == Activation::gelu && !again.activation) {
    linear_gelu(stream, saved.x_TD, up_.value, up_bias_.value, saved.u_TU, saved.a_TF);
  } else {
    project_up(pass, saved);
    activate(pass, saved);
  }
  // 4. y = a Wdown^T, a partial sum
  const TensorView partial_TD =
      pass.scratch.take(dtype, {T, config_.hidden}, "mlp.partial");
  linear(stream, saved.a_TF, down_.value, {}, partial_TD);
  // 5. leave the region
  const TensorView sum_TD = region_.leave(stream, pass.scratch, partial_TD).wait();
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
    saved.u_TU = pass.scratch.take(dtype, {T, up_.shape[0]}, "mlp.u");
    project_up(pass, saved);
  }
  if (saved.a_TF.empty()) {
    saved.a_TF = pass.kept().take(dtype, {T, width_}, "mlp.a");
    activate(pass, saved);
  }
  // 4. down projection
  const TensorView da_TF = pass.kept().take(dtype, {T, width_}, "mlp.da");
  const bool gelu = config_.activation == Activation::gelu;
  if (gelu) {  // 3. with it
    linear_gelu_input_gradient(stream, dy_all_TD, down_.value, saved.u_TU, da_TF);
  } else {
    linear_input_gradient(stream, dy_all_TD, down_.value, da_TF);
  }
  pass.weight_gradients.post(
      stream, down_, [this, dy_all_TD, a_TF = saved.a_TF](Stream& on) {
        linear_weight_gradient(on, dy_all_TD, a_TF, down_.gradient);
      });
  // 3. activation
  TensorView du_TU = da_TF;
  if (!gelu) {
    du_TU = pass.kept().take(dtype, saved.u_TU.shape(), "mlp.du");
    kernels::swiglu_backward(stream, da_TF, saved.u_TU, du_TU);
  }
  // 2. up projection: the input gradient first, so that 1. its communication overlaps
  linear_input_gradient(stream, du_TU, up_.value, dx_all_TD);
  auto dx = region_.enter_backward(stream, pass.scratch, dx_all_TD);
  post_linear_gradients(pass, du_TU, saved.x_TD, up_, up_bias_);
  return dx.wait();
}

void Mlp::collect(std::vector<Param*>& params) {
  params.push_back(&up_);
  if (config_.bias) params.push_back(&up_bias_);
  params.push_back(&down_);
  if (config_.bias) params.push_back(&down_bias_);
}

}  // namespace trireme::nn
