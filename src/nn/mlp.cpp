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

void Mlp::forward(Pass& pass, const TensorView& x_TD, const TensorView& residual_TD,
                  const TensorView& y_TD, Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType dtype = x_TD.dtype();
  const std::int64_t T = pass.tokens();
  // 1. enter the region
  saved.x_TD = region_.enter(stream, pass.saved, x_TD).wait();
  // 2. u = x W^T + b
  saved.u_TU = pass.saved.take(dtype, {T, up_.shape[0]}, "mlp.u");
  linear(stream, saved.x_TD, up_.value, up_bias_.value, saved.u_TU);
  // 3. activation
  saved.a_TF = pass.saved.take(dtype, {T, width_}, "mlp.a");
  if (config_.activation == Activation::swiglu) {
    kernels::swiglu(stream, saved.u_TU, saved.a_TF);
  } else {
    kernels::gelu(stream, saved.u_TU, saved.a_TF);
  }
  // 4. y = a Wdown^T, a partial sum
  const TensorView partial_TD =
      pass.scratch.take(dtype, {T, config_.hidden}, "mlp.partial");
  linear(stream, saved.a_TF, down_.value, {}, partial_TD);
  // 5. leave the region
  const TensorView sum_TD = region_.leave(stream, pass.scratch, partial_TD).wait();
  // 6. residual and bias
  kernels::add_bias(stream, residual_TD, sum_TD, down_bias_.value, y_TD);
}

TensorView Mlp::backward(Pass& pass, const TensorView& dy_TD, const Saved& saved) {
  Stream& stream = pass.stream;
  const DType dtype = dy_TD.dtype();
  const TensorView dx_all_TD =
      pass.scratch.take(dtype, {pass.tokens(), config_.hidden}, "mlp.dx");
  // 6. bias
  if (config_.bias) {
    pass.weight_gradients.post(down_bias_, [&] {
      kernels::add_column_sums(stream, dy_TD, down_bias_.gradient);
    });
  }
  // 5. leave
  const TensorView dy_all_TD = region_.leave_backward(stream, pass.scratch, dy_TD).wait();
  // 4. down projection
  const TensorView da_TF = pass.scratch.take(dtype, saved.a_TF.shape(), "mlp.da");
  linear_input_gradient(stream, dy_all_TD, down_.value, da_TF);
  pass.weight_gradients.post(down_, [&] {
    linear_weight_gradient(stream, dy_all_TD, saved.a_TF, down_.gradient);
  });
  // 3. activation
  TensorView du_TU = da_TF;
  if (config_.activation == Activation::swiglu) {
    du_TU = pass.scratch.take(dtype, saved.u_TU.shape(), "mlp.du");
    kernels::swiglu_backward(stream, da_TF, saved.u_TU, du_TU);
  } else {
    kernels::gelu_backward(stream, da_TF, saved.u_TU, du_TU);
  }
  // 2. up projection: the input gradient first, so that 1. its communication overlaps
  linear_input_gradient(stream, du_TU, up_.value, dx_all_TD);
  auto dx = region_.enter_backward(stream, pass.scratch, dx_all_TD);
  pass.weight_gradients.post(
      up_, [&] { linear_weight_gradient(stream, du_TU, saved.x_TD, up_.gradient); });
  if (config_.bias) {
    pass.weight_gradients.post(
        up_bias_, [&] { kernels::add_column_sums(stream, du_TU, up_bias_.gradient); });
  }
  return dx.wait();
}

void Mlp::collect(std::vector<Param*>& params) {
  params.push_back(&up_);
  if (config_.bias) params.push_back(&up_bias_);
  params.push_back(&down_);
  if (config_.bias) params.push_back(&down_bias_);
}

}  // namespace trireme::nn
