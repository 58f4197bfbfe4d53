// Mlp: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/mlp.hpp"

#include "kernels/elementwise.hpp"
#include "nn/layout.hpp"

namespace trireme::nn {

Mlp::Mlp(const MlpConfig& config, const parallel::TensorRegion& region)
    : config_(config), region_(region) {
  const Range units = region.part(config.feed_forward);
  const Shape whole = {config.feed_forward, config.hidden};
  const Initializer normal{Initializer::Kind::normal, config.deviation};
  feed_.activation = config.activation;
  feed_.set_precision(config.products);
  feed_.up.weight =
      up_param(config.activation, config.gate, config.up, whole, units, normal);
  feed_.down.weight =
      column_split_param(config.down + ".weight", {config.hidden, config.feed_forward},
                         units, {Initializer::Kind::normal, config.output_deviation});
  if (config.bias) {
    feed_.up_bias = up_param(config.activation, config.gate, config.up,
                             {config.feed_forward}, units, {});
    down_bias_ = unsplit_param(region, config.down + ".bias", {config.hidden}, {});
  }
}

void Mlp::forward(Pass& pass, const TensorView& x_TD, const Residual& residual,
                  Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType dtype = x_TD.dtype();
  const std::int64_t T = pass.tokens();
  // 1. enter the region; 2. u = x W^T + b, a = activation(u)
  feed_.take(pass, dtype, T, saved.hidden);
  region_.enter(stream, pass.scratch, x_TD, feed_.up.operands.rows_stand_alone(),
                [&](const Range& rows, const TensorView& x_RD) {
                  auto part = saved.hidden.rows(rows);
                  feed_.forward(pass, x_RD, part);
                  saved.hidden.up = part.up;
                });
  // 3. y = a Wdown^T, a partial sum
  const TensorView partial_TD =
      pass.scratch.take(dtype, {T, config_.hidden}, "mlp.partial");
  const Linear::Input a =
      feed_.down.input(pass, region_.cuts(), saved.hidden.a_NF, saved.hidden.down);
  const auto product = [&](const Range& rows, const TensorView& to_TD) {
    feed_.down.forward(pass, a.rows(rows), {}, to_TD, saved.hidden.down);
  };
  // 4. leave the region with it
  const TensorView sum_TD =
      region_.leave(stream, pass.scratch, partial_TD, product).wait();
  // 5. residual and bias
  residual.join(pass, sum_TD, down_bias_.value);
  if (!pass.recompute.norm) saved.x_TD = x_TD;
  feed_.forget(pass.recompute, saved.hidden);
}

TensorView Mlp::backward(Pass& pass, const TensorView& dy_TD, Saved saved) {
  Stream& stream = pass.stream;
  const DType dtype = dy_TD.dtype();
  const std::int64_t T = pass.tokens();
  const TensorView dx_all_TD = pass.scratch.take(dtype, {T, config_.hidden}, "mlp.dx");
  // 4. leave; beside its communication, what does not need its result: 5. bias, and 2.
  // once more, if it was not kept
  auto dy_all = region_.leave_backward(stream, pass.kept(), dy_TD);
  if (config_.bias) {
    pass.weight_gradients.post(stream, down_bias_, [this, dy_TD](Stream& on) {
      kernels::add_column_sums(on, dy_TD, down_bias_.gradient);
    });
  }
  // 1. enter once more, for dW of 2.: beside the products of 3., unless 2. reads it
  auto x_all = region_.enter(stream, pass.kept(), saved.x_TD);
  if (saved.hidden.u_NU.empty()) saved.x_TD = x_all.wait();
  feed_.again(pass, saved.x_TD, saved.hidden);
  const TensorView dy_all_TD = dy_all.wait();
  // 3. down projection, 2. activation
  const TensorView da_TF = pass.kept().take(dtype, {T, feed_.width()}, "mlp.da");
  const TensorView du_TU = feed_.backward(pass, dy_all_TD, saved.hidden, da_TF);
  // 2. up projection: the input gradient first, so that 1. its communication overlaps
  const Linear::Gradient du =
      feed_.up.cut_gradient(pass, region_.cuts(), feed_.up.output_gradient(pass, du_TU));
  saved.x_TD = x_all.wait();
  auto dx = region_.enter_backward(stream, pass.scratch, dx_all_TD,
                                   [&](const Range& rows, const TensorView& to_TD) {
                                     feed_.up.input_gradient(pass, du.rows(rows), to_TD);
                                   });
  feed_.up.post_gradients(pass, du, saved.x_TD, saved.hidden.up, feed_.up_bias);
  return dx.wait();
}

void Mlp::collect(std::vector<Param*>& params) {
  feed_.collect(params);
  if (config_.bias) params.push_back(&down_bias_);
}

void Mlp::attach(const AdapterConfig& adapters) {
  feed_.for_each_adapter([&](Adapter& adapter, std::int64_t experts) {
    adapter.attach(adapters, region_, experts);
  });
}

void Mlp::collect(std::vector<Fp8Operands*>& layers) { feed_.collect(layers); }

}  // namespace trireme::nn
