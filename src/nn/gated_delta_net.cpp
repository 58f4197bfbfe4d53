// GatedDeltaNet: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/gated_delta_net.hpp"

#include "kernels/activation.hpp"
#include "kernels/heads.hpp"
#include "nn/layout.hpp"

namespace trireme::nn {
namespace {

// Rows of a tensor behind those that the Param has so far.
void add_rows(Param& param, const std::string& tensor, std::int64_t whole, Range rows,
              std::int64_t width) {
  const std::int64_t next = param.shape[0];
  param.boxes.push_back({tensor,
                         {whole, width},
                         {next, 0},
                         {rows.begin, 0},
                         {rows.count(), width},
                         Place::varying,
                         true});
  param.shape[0] += rows.count();
}

}  // namespace

GatedDeltaNet::GatedDeltaNet(const GatedDeltaNetConfig& config,
                             const parallel::TensorRegion& region)
    : config_(config),
      region_(region),
      key_heads_(region.part(config.key_heads)),
      sharing_(config.value_heads / config.key_heads),
      norm_({NormKind::rms, config.value_width, config.norm_eps, 0, config.norm, true},
            region) {
  require(config.value_heads % config.key_heads == 0 && key_heads_.count() > 0,
          "{} value heads cannot share {} key heads, or a part of them is empty",
          config.value_heads, config.key_heads);
  input_.weight = input_param();
  conv_ = conv_param();
  const std::int64_t G = config.value_heads, V = config.value_width;
  decay_ = row_split_param(config.decay, {G}, value_heads(),
                           {Initializer::Kind::log_uniform, 0, 0.01, 16});
  bias_ = row_split_param(config.bias, {G}, value_heads(), {Initializer::Kind::ones});
  output_.weight = column_split_param(
      config.output + ".weight", {config.hidden, G * V}, times(value_heads(), V),
      {Initializer::Kind::normal, config.output_deviation});
}

Range GatedDeltaNet::value_heads() const { return times(key_heads_, sharing_); }

std::int64_t GatedDeltaNet::channels(std::int64_t key_heads) const {
  return key_heads * (2 * config_.key_width + sharing_ * config_.value_width);
}

// Rows [q; k; v; z; b; a] of this rank's heads.
Param GatedDeltaNet::input_param() const {
  const GatedDeltaNetConfig& c = config_;
  const std::int64_t keys = c.key_heads * c.key_width,
                     values = c.value_heads * c.value_width;
  const Range key_rows = times(key_heads_, c.key_width),
              value_rows = times(value_heads(), c.value_width);
  Param param;
  param.name = c.qkv + ".weight";
  param.shape = {0, c.hidden};
  param.initializer = {Initializer::Kind::normal, c.deviation};
  const std::int64_t whole = 2 * keys + values;
  add_rows(param, param.name, whole, key_rows, c.hidden);
  add_rows(param, param.name, whole, {keys + key_rows.begin, keys + key_rows.end},
           c.hidden);
  add_rows(param, param.name, whole,
           {2 * keys + value_rows.begin, 2 * keys + value_rows.end}, c.hidden);
  add_rows(param, c.z + ".weight", values, value_rows, c.hidden);
  add_rows(param, c.b + ".weight", c.value_heads, value_heads(), c.hidden);
  add_rows(param, c.a + ".weight", c.value_heads, value_heads(), c.hidden);
  return param;
}

// Taps of the same channels, in their order.
Param GatedDeltaNet::conv_param() const {
  const GatedDeltaNetConfig& c = config_;
  const std::int64_t keys = c.key_heads * c.key_width,
                     whole = 2 * keys + c.value_heads * c.value_width;
  Param param;
  param.name = c.conv + ".weight";
  param.shape = {0, c.taps};
  // Its rows are channels: no matrix that Muon could update as a whole.
  param.table = true;
  param.initializer = {Initializer::Kind::normal, c.deviation};
  add_rows(param, param.name, whole, times(key_heads_, c.key_width), c.taps);
  add_rows(param, param.name, whole, times(key_heads_, c.key_width, keys), c.taps);
  add_rows(param, param.name, whole, times(value_heads(), c.value_width, 2 * keys),
           c.taps);
  return param;
}

GatedDeltaNet::Columns GatedDeltaNet::columns(const TensorView& mixed_TE) const {
  const std::int64_t C = channels(key_heads_.count()), G = value_heads().count(),
                     values = G * config_.value_width;
  return {{mixed_TE.columns(0, C), mixed_TE.columns(C + values, G),
           mixed_TE.columns(C + values + G, G)},
          mixed_TE.columns(C, values)};
}

TensorView GatedDeltaNet::gated_pairs(Pass& pass, Arena& arena, Saved& saved,
                                      bool again) const {
  const std::int64_t T = pass.tokens(), G = value_heads().count(),
                     V = config_.value_width;
  const TensorView pairs = arena.take(saved.o_TGV.dtype(), {T * G, 2 * V}, "delta.pairs");
  const TensorView normed = pairs.columns(V, V);
  kernels::copy_heads(pass.stream, {saved.z_TGV, G, 0},
                      {pairs.reshape({T, G * 2 * V}), G, 0}, V);
  if (again) {
    saved.norm.x_TD = saved.o_TGV.reshape({T * G, V});
    norm_.again(pass, saved.norm, normed);
  } else {
    norm_.forward(pass, saved.o_TGV.reshape({T * G, V}), normed, saved.norm);
  }
  return pairs;
}

TensorView GatedDeltaNet::activate(Pass& pass, Arena& arena,
                                   const TensorView& pairs) const {
  const std::int64_t G = value_heads().count(), V = config_.value_width;
  const TensorView y_TGV =
      arena.take(pairs.dtype(), {pass.tokens(), G * V}, "delta.gated");
  kernels::activate(pass.stream, Activation::swiglu, pairs,
                    y_TGV.reshape({pairs.dim(0), V}));
  return y_TGV;
}

void GatedDeltaNet::forward(Pass& pass, const TensorView& x_TD, const Residual& residual,
                            Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType dtype = x_TD.dtype();
  const Recompute& again = pass.recompute;
  const std::int64_t T = pass.tokens();
  // 1. enter the region; 2. q, k, v, z, b and a = x W^T
  Arena& arena = pass.kept_unless(pass.attention.sequences() != nullptr);
  const TensorView mixed_TE =
      arena.take(dtype, {T, input_.weight.shape[0]}, "delta.mixed");
  region_.enter(stream, pass.scratch, x_TD, input_.operands.rows_stand_alone(),
                [&](const Range& rows, const TensorView& x_RD) {
                  input_.forward(pass, x_RD, {}, mixed_TE.rows(rows.begin, rows.count()),
                                 saved.input);
                });
  take_apart(pass, mixed_TE, saved);
  // 3. convolution, gates and rule
  if (pass.attention.is_cached()) {
    go_on(pass, saved);
  } else {
    recur(pass, pass.kept_unless(again.attention), saved);
  }
  // 4. norm(o) silu(z)
  const TensorView y_TGV =
      activate(pass, pass.scratch, gated_pairs(pass, pass.scratch, saved, false));
  // 5. y = that times Wo^T, a partial sum
  const TensorView partial_TD =
      pass.scratch.take(dtype, {T, config_.hidden}, "delta.partial");
  const Linear::Input y = output_.input(pass, region_.cuts(), y_TGV, saved.output);
  const auto product = [&](const Range& rows, const TensorView& to_TD) {
    output_.forward(pass, y.rows(rows), {}, to_TD, saved.output);
  };
  // 6. leave the region with it
  const TensorView sum_TD =
      region_.leave(stream, pass.scratch, partial_TD, product).wait();
  // 7. residual
  residual.join(pass, sum_TD, {});
  if (!again.norm) saved.x_TD = x_TD;
  if (again.attention)
    saved.conv_TC = saved.g_TG = saved.beta_TG = saved.states = saved.o_TGV = {};
}

TensorView GatedDeltaNet::output_gate_backward(Pass& pass, const TensorView& dy_TGV,
                                               Saved& saved, const TensorView& pairs,
                                               const TensorView& dz_TGV) {
  const std::int64_t T = pass.tokens(), G = value_heads().count(),
                     V = config_.value_width;
  const TensorView do_TGV =
      pass.scratch.take(dy_TGV.dtype(), saved.o_TGV.shape(), "delta.do");
  const ArenaScope scope(pass.scratch);
  const TensorView dpairs =
      pass.scratch.take(pairs.dtype(), pairs.shape(), "delta.dpairs");
  kernels::activate_backward(pass.stream, Activation::swiglu, dy_TGV.reshape({T * G, V}),
                             pairs, dpairs);
  kernels::copy_heads(pass.stream, {dpairs.reshape({T, G * 2 * V}), G, 0}, {dz_TGV, G, 0},
                      V);
  norm_.backward(pass, dpairs.columns(V, V), saved.norm, {}, do_TGV.reshape({T * G, V}));
  return do_TGV;
}

TensorView GatedDeltaNet::backward(Pass& pass, const TensorView& dy_TD, Saved saved) {
  Stream& stream = pass.stream;
  const DType dtype = dy_TD.dtype();
  const std::int64_t T = pass.tokens(), D = config_.hidden;
  const TensorView dx_all_TD = pass.scratch.take(dtype, {T, D}, "delta.dx");
  // 6. leave; beside its communication 3. and 4. once more, as far as they were not kept
  auto dy_all = region_.leave_backward(stream, pass.kept(), dy_TD);
  if (saved.o_TGV.empty()) recur(pass, pass.kept(), saved);
  const TensorView pairs = gated_pairs(pass, pass.scratch, saved, true);
  const TensorView y_TGV = activate(pass, pass.kept(), pairs);
  const TensorView dy_all_TD = dy_all.wait();
  // 1. enter once more, for dW of 2.: beside the products of 5.
  auto x_all = region_.enter(stream, pass.kept(), saved.x_TD);
  // 5. output projection
  const TensorView dgated_TGV = pass.scratch.take(dtype, y_TGV.shape(), "delta.dgated");
  const Linear::Gradient dy = output_.output_gradient(pass, dy_all_TD);
  output_.input_gradient(pass, dy, dgated_TGV);
  output_.post_weight_gradient(pass, dy, y_TGV, saved.output);
  // 4. gate and norm
  const TensorView dmixed_TE =
      pass.kept().take(dtype, {T, input_.weight.shape[0]}, "delta.dmixed");
  const Columns dmixed = columns(dmixed_TE);
  const TensorView do_TGV =
      output_gate_backward(pass, dgated_TGV, saved, pairs, dmixed.z_TGV);
  // 3. rule, gates and convolution
  mixed_backward(pass, do_TGV, saved, dmixed.rule);
  // 2. projection: the input gradient first, so that 1. its communication overlaps with
  // dW
  const Linear::Gradient d =
      input_.cut_gradient(pass, region_.cuts(), input_.output_gradient(pass, dmixed_TE));
  saved.x_TD = x_all.wait();
  auto dx = region_.enter_backward(stream, pass.scratch, dx_all_TD,
                                   [&](const Range& rows, const TensorView& to_TD) {
                                     input_.input_gradient(pass, d.rows(rows), to_TD);
                                   });
  input_.post_weight_gradient(pass, d, saved.x_TD, saved.input);
  return dx.wait();
}

void GatedDeltaNet::attach(const AdapterConfig& adapters) {
  input_.adapter.attach(adapters, region_);
  output_.adapter.attach(adapters, region_);
}

void GatedDeltaNet::collect(std::vector<Param*>& params) {
  input_.collect(params);
  params.push_back(&conv_);
  params.push_back(&decay_);
  params.push_back(&bias_);
  norm_.collect(params);
  output_.collect(params);
}

}  // namespace trireme::nn
