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

Range times(const Range& range, std::int64_t width, std::int64_t first = 0) {
  return {first + range.begin * width, first + range.end * width};
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

std::int64_t GatedDeltaNet::channels() const {
  return 2 * key_heads_.count() * config_.key_width +
         value_heads().count() * config_.value_width;
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
  const std::int64_t C = channels(), G = value_heads().count(),
                     values = G * config_.value_width;
  return {mixed_TE.columns(0, C), mixed_TE.columns(C, values),
          mixed_TE.columns(C + values, G), mixed_TE.columns(C + values + G, G)};
}

kernels::DeltaInputs GatedDeltaNet::rule_inputs(const TensorView& conv_TC,
                                                const TensorView& g_TG,
                                                const TensorView& beta_TG) const {
  const std::int64_t keys = key_heads_.count() * config_.key_width;
  return {conv_TC.columns(0, keys), conv_TC.columns(keys, keys),
          conv_TC.columns(2 * keys, channels() - 2 * keys), g_TG, beta_TG};
}

kernels::DeltaShape GatedDeltaNet::shape(const Pass& pass) const {
  return {.batch = pass.microbatch.batch,
          .sequence = pass.microbatch.sequence,
          .key_heads = key_heads_.count(),
          .value_heads = value_heads().count(),
          .key_width = config_.key_width,
          .value_width = config_.value_width,
          .starts_T = pass.microbatch.documents.starts_T};
}

void GatedDeltaNet::make_gates(Pass& pass, Arena& arena, Saved& saved) const {
  const DType dtype = saved.mixed_TE.dtype(), wide = accumulator_of(dtype);
  const Columns in = columns(saved.mixed_TE);
  const Shape gates = {pass.tokens(), value_heads().count()};
  saved.g_TG = arena.take(wide, gates, "delta.g");
  saved.beta_TG = arena.take(wide, gates, "delta.beta");
  const ArenaScope scope(pass.scratch);
  kernels::delta_gates(pass.stream, in.a_TG, in.b_TG, in_type(pass, decay_.value, dtype),
                       in_type(pass, bias_.value, dtype), saved.g_TG, saved.beta_TG);
}

void GatedDeltaNet::recur(Pass& pass, Arena& arena, Saved& saved) const {
  const DType dtype = saved.mixed_TE.dtype();
  const std::int64_t T = pass.tokens();
  const kernels::DeltaShape rule = shape(pass);
  saved.conv_TC = arena.take(dtype, {T, channels()}, "delta.conv");
  saved.states = arena.take(accumulator_of(dtype), rule.states(), "delta.states");
  saved.o_TGV = arena.take(dtype, {T, rule.value_heads * rule.value_width}, "delta.o");
  make_gates(pass, arena, saved);
  const ArenaScope scope(pass.scratch);
  kernels::causal_conv(pass.stream, {rule.batch, rule.sequence, rule.starts_T},
                       columns(saved.mixed_TE).conv_TC, in_type(pass, conv_.value, dtype),
                       saved.conv_TC);
  kernels::delta_rule(pass.stream, pass.scratch, rule,
                      rule_inputs(saved.conv_TC, saved.g_TG, saved.beta_TG), saved.o_TGV,
                      saved.states);
}

// The rows before a text's first are those that the layer kept, and the last ones are
// kept for the next time.
void GatedDeltaNet::go_on(Pass& pass, Saved& saved) const {
  const std::int64_t T = pass.tokens();
  const kernels::DeltaShape rule = shape(pass);
  require(rule.batch == 1, "{} sequences are generated at once", rule.batch);
  saved.o_TGV = pass.saved.take(saved.mixed_TE.dtype(),
                                {T, rule.value_heads * rule.value_width}, "delta.o");
  make_gates(pass, pass.saved, saved);
  for (const parallel::RecurrentState& text :
       pass.attention.recurrent_states(pass.stream, T))
    go_on_with(pass, text, saved);
}

void GatedDeltaNet::go_on_with(Pass& pass, const parallel::RecurrentState& text,
                               const Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType dtype = saved.mixed_TE.dtype();
  const std::int64_t T = text.rows.count(), first = text.rows.begin, C = channels(),
                     before = config_.taps - 1;
  kernels::DeltaShape rule = shape(pass);
  rule.sequence = T;
  const auto take = [&] {
    return pass.scratch.take(dtype, {before + T, C}, "delta.conv");
  };
  const TensorView x_TC = take(), y_TC = take();
  if (before > 0) kernels::copy(stream, text.tail_WC, x_TC.rows(0, before));
  kernels::copy(stream, columns(saved.mixed_TE).conv_TC.rows(first, T),
                x_TC.rows(before, T));
  kernels::causal_conv(stream, {1, before + T}, x_TC, in_type(pass, conv_.value, dtype),
                       y_TC);
  if (before > 0) kernels::copy(stream, x_TC.rows(T, before), text.tail_WC);
  kernels::delta_rule(stream, pass.scratch, rule,
                      rule_inputs(y_TC.rows(before, T), saved.g_TG.rows(first, T),
                                  saved.beta_TG.rows(first, T)),
                      saved.o_TGV.rows(first, T), {}, text.state);
}

TensorView GatedDeltaNet::gated_pairs(Pass& pass, Arena& arena, Saved& saved,
                                      bool again) const {
  const std::int64_t T = pass.tokens(), G = value_heads().count(),
                     V = config_.value_width;
  const TensorView pairs = arena.take(saved.o_TGV.dtype(), {T * G, 2 * V}, "delta.pairs");
  const TensorView normed = pairs.columns(V, V);
  kernels::copy_heads(pass.stream, {columns(saved.mixed_TE).z_TGV, G, 0},
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
  // 1. enter the region
  const TensorView x_all_TD = region_.enter(stream, pass.scratch, x_TD).wait();
  // 2. q, k, v, z, b and a = x W^T
  saved.mixed_TE = pass.saved.take(dtype, {T, input_.weight.shape[0]}, "delta.mixed");
  input_.forward(pass, x_all_TD, {}, saved.mixed_TE, saved.input);
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
  const auto product = [&](const Range& rows, const TensorView& to_TD) {
    output_.forward(pass, y_TGV.rows(rows.begin, rows.count()), {}, to_TD, saved.output);
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

TensorView GatedDeltaNet::rule_backward(Pass& pass, const TensorView& do_TGV,
                                        const Saved& saved, const Columns& dmixed) {
  Stream& stream = pass.stream;
  const DType dtype = do_TGV.dtype(), wide = accumulator_of(dtype);
  const Shape gates = saved.g_TG.shape();
  const TensorView dconv_TC =
      pass.scratch.take(dtype, saved.conv_TC.shape(), "delta.dconv");
  const TensorView ddecay_G = pass.fused_target(decay_, wide),
                   dbias_G = pass.fused_target(bias_, wide);
  const ArenaScope scope(pass.scratch);
  const TensorView dg_TG = pass.scratch.take(wide, gates, "delta.dg"),
                   dbeta_TG = pass.scratch.take(wide, gates, "delta.dbeta");
  kernels::delta_rule_backward(stream, pass.scratch, shape(pass), do_TGV,
                               rule_inputs(saved.conv_TC, saved.g_TG, saved.beta_TG),
                               saved.states, rule_inputs(dconv_TC, dg_TG, dbeta_TG));
  const Columns in = columns(saved.mixed_TE);
  kernels::delta_gates_backward(
      stream, in.a_TG, in.b_TG, in_type(pass, decay_.value, dtype),
      in_type(pass, bias_.value, dtype), dg_TG, dbeta_TG, dmixed.a_TG, dmixed.b_TG);
  kernels::add_column_sums(stream, dg_TG, ddecay_G);
  kernels::add_column_sums(stream, dbeta_TG, dbias_G);
  pass.add_fused(decay_, ddecay_G);
  pass.add_fused(bias_, dbias_G);
  return dconv_TC;
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
      pass.kept().take(dtype, saved.mixed_TE.shape(), "delta.dmixed");
  const Columns dmixed = columns(dmixed_TE);
  const TensorView do_TGV =
      output_gate_backward(pass, dgated_TGV, saved, pairs, dmixed.z_TGV);
  // 3. rule, gates and convolution
  const TensorView dconv_TC = rule_backward(pass, do_TGV, saved, dmixed);
  const TensorView dconv_CW = pass.fused_target(conv_, accumulator_of(dtype));
  kernels::causal_conv_backward(stream,
                                {pass.microbatch.batch, pass.microbatch.sequence,
                                 pass.microbatch.documents.starts_T},
                                dconv_TC, columns(saved.mixed_TE).conv_TC,
                                in_type(pass, conv_.value, dtype), dmixed.conv_TC,
                                dconv_CW);
  pass.add_fused(conv_, dconv_CW);
  // 2. projection: the input gradient first, so that 1. its communication overlaps with
  // dW
  const Linear::Gradient d = input_.output_gradient(pass, dmixed_TE);
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
