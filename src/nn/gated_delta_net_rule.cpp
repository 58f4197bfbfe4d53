// GatedDeltaNet: the convolution, the gates and the rule, wherever the rows are.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"
#include "nn/gated_delta_net.hpp"
#include "nn/layout.hpp"

namespace trireme::nn {

Range GatedDeltaNet::rule_keys(const Pass& pass) const {
  const parallel::SequenceExchange* exchange = pass.attention.sequences();
  return exchange == nullptr ? Range{0, key_heads_.count()}
                             : exchange->part(key_heads_.count());
}

Range GatedDeltaNet::rule_values(const Pass& pass) const {
  return times(rule_keys(pass), sharing_);
}

template <class Body>
void GatedDeltaNet::for_channels(const Pass& pass, const Body& body) const {
  const Range keys = rule_keys(pass), values = rule_values(pass);
  const std::int64_t K = config_.key_width, queries = key_heads_.count() * K;
  if (pass.attention.sequences() == nullptr) {
    const Range all{0, channels(key_heads_.count())};
    return body(all, all);
  }
  std::int64_t next = 0;
  const auto part = [&](const Range& outside) {
    body(outside, Range{next, next + outside.count()});
    next += outside.count();
  };
  part(times(keys, K));
  part(times(keys, K, queries));
  part(times(values, config_.value_width, 2 * queries));
}

GatedDeltaNet::RuleColumns GatedDeltaNet::rule_columns(const Pass& pass,
                                                       const TensorView& rule_TE) const {
  const std::int64_t C = channels(rule_keys(pass).count()), G = rule_values(pass).count();
  return {rule_TE.columns(0, C), rule_TE.columns(C, G), rule_TE.columns(C + G, G)};
}

kernels::DeltaInputs GatedDeltaNet::rule_inputs(const TensorView& conv_TC,
                                                const TensorView& g_TG,
                                                const TensorView& beta_TG) const {
  const std::int64_t values = g_TG.dim(1) * config_.value_width,
                     keys = (conv_TC.dim(1) - values) / 2;
  return {conv_TC.columns(0, keys), conv_TC.columns(keys, keys),
          conv_TC.columns(2 * keys, values), g_TG, beta_TG};
}

kernels::DeltaShape GatedDeltaNet::shape(const Pass& pass) const {
  const parallel::SequenceExchange* exchange = pass.attention.sequences();
  const std::int64_t S = pass.microbatch.sequence;
  return {.batch = pass.microbatch.batch,
          .sequence = exchange == nullptr ? S : exchange->whole(S),
          .key_heads = rule_keys(pass).count(),
          .value_heads = rule_values(pass).count(),
          .key_width = config_.key_width,
          .value_width = config_.value_width};
}

kernels::DeltaShape GatedDeltaNet::shape_of_documents(Pass& pass) const {
  kernels::DeltaShape all = shape(pass);
  all.starts_T = pass.microbatch.documents.starts_T;
  parallel::SequenceExchange* exchange = pass.attention.sequences();
  if (exchange == nullptr || all.starts_T.empty()) return all;
  const TensorView starts_T =
      pass.scratch.take(DType::i32, {all.batch * all.sequence}, "delta.starts");
  exchange->gather(pass.stream, pass.scratch, all.batch, all.starts_T, starts_T);
  all.starts_T = starts_T;
  return all;
}

// Whole sequences are not kept twice: of the projection's output only z is then read
// again.
void GatedDeltaNet::take_apart(Pass& pass, const TensorView& mixed_TE,
                               Saved& saved) const {
  const Columns local = columns(mixed_TE);
  parallel::SequenceExchange* exchange = pass.attention.sequences();
  if (exchange == nullptr) {
    saved.z_TGV = local.z_TGV;
    saved.mixed = local.rule;
    return;
  }
  const DType dtype = mixed_TE.dtype();
  saved.z_TGV = pass.saved.take(dtype, local.z_TGV.shape(), "delta.z");
  kernels::copy(pass.stream, local.z_TGV, saved.z_TGV);
  const std::int64_t C = channels(rule_keys(pass).count()), G = rule_values(pass).count();
  saved.mixed = rule_columns(
      pass,
      pass.saved.take(dtype, {exchange->whole(pass.tokens()), C + 2 * G}, "delta.mixed"));
  const auto moved = exchanged(pass, local.rule, saved.mixed);
  exchange->to_heads(pass.stream, pass.scratch, pass.microbatch.batch, moved);
}

std::array<parallel::SequenceExchange::Columns, 5> GatedDeltaNet::exchanged(
    const Pass& pass, const RuleColumns& outside, const RuleColumns& inside) const {
  const std::int64_t all = key_heads_.count() * config_.key_width,
                     some = rule_keys(pass).count() * config_.key_width;
  const TensorView &from = outside.conv_TC, &to = inside.conv_TC;
  return {{{from.columns(0, all), to.columns(0, some)},
           {from.columns(all, all), to.columns(some, some)},
           {from.columns(2 * all, from.dim(1) - 2 * all),
            to.columns(2 * some, to.dim(1) - 2 * some)},
           {outside.b_TG, inside.b_TG},
           {outside.a_TG, inside.a_TG}}};
}

void GatedDeltaNet::make_gates(Pass& pass, Arena& arena, Saved& saved) const {
  const TensorView& a_TG = saved.mixed.a_TG;
  const DType dtype = a_TG.dtype(), wide = accumulator_of(dtype);
  const Range heads = rule_values(pass);
  saved.g_TG = arena.take(wide, a_TG.shape(), "delta.g");
  saved.beta_TG = arena.take(wide, a_TG.shape(), "delta.beta");
  const ArenaScope scope(pass.scratch);
  kernels::delta_gates(
      pass.stream, a_TG, saved.mixed.b_TG,
      in_type(pass, decay_.value, dtype).rows(heads.begin, heads.count()),
      in_type(pass, bias_.value, dtype).rows(heads.begin, heads.count()), saved.g_TG,
      saved.beta_TG);
}

void GatedDeltaNet::recur(Pass& pass, Arena& arena, Saved& saved) const {
  const TensorView& mixed_TC = saved.mixed.conv_TC;
  const DType dtype = mixed_TC.dtype();
  saved.conv_TC = arena.take(dtype, mixed_TC.shape(), "delta.conv");
  saved.states = arena.take(accumulator_of(dtype), shape(pass).states(), "delta.states");
  saved.o_TGV = arena.take(dtype, saved.z_TGV.shape(), "delta.o");
  make_gates(pass, arena, saved);
  const ArenaScope scope(pass.scratch);
  const kernels::DeltaShape rule = shape_of_documents(pass);
  const TensorView weight_CW = in_type(pass, conv_.value, dtype);
  for_channels(pass, [&](const Range& outside, const Range& inside) {
    kernels::causal_conv(pass.stream, {rule.batch, rule.sequence, rule.starts_T},
                         mixed_TC.columns(inside.begin, inside.count()),
                         weight_CW.rows(outside.begin, outside.count()),
                         saved.conv_TC.columns(inside.begin, inside.count()));
  });
  parallel::SequenceExchange* exchange = pass.attention.sequences();
  const TensorView o_TGV =
      exchange == nullptr
          ? saved.o_TGV
          : pass.scratch.take(dtype,
                              {mixed_TC.dim(0), rule.value_heads * config_.value_width},
                              "delta.o");
  kernels::delta_rule(pass.stream, pass.scratch, rule,
                      rule_inputs(saved.conv_TC, saved.g_TG, saved.beta_TG), o_TGV,
                      saved.states);
  if (exchange == nullptr) return;
  const parallel::SequenceExchange::Columns o[] = {{saved.o_TGV, o_TGV}};
  exchange->to_rows(pass.stream, pass.scratch, rule.batch, o);
}

// The rows before a text's first are those that the layer kept, and the last ones are
// kept for the next time.
void GatedDeltaNet::go_on(Pass& pass, Saved& saved) const {
  const std::int64_t T = pass.tokens();
  const kernels::DeltaShape rule = shape(pass);
  require(rule.batch == 1, "{} sequences are generated at once", rule.batch);
  saved.o_TGV = pass.saved.take(saved.z_TGV.dtype(), saved.z_TGV.shape(), "delta.o");
  make_gates(pass, pass.saved, saved);
  for (const parallel::RecurrentState& text :
       pass.attention.recurrent_states(pass.stream, T))
    go_on_with(pass, text, saved);
}

void GatedDeltaNet::go_on_with(Pass& pass, const parallel::RecurrentState& text,
                               const Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType dtype = saved.mixed.conv_TC.dtype();
  const std::int64_t T = text.rows.count(), first = text.rows.begin,
                     C = saved.mixed.conv_TC.dim(1), before = config_.taps - 1;
  kernels::DeltaShape rule = shape(pass);
  rule.sequence = T;
  const auto take = [&] {
    return pass.scratch.take(dtype, {before + T, C}, "delta.conv");
  };
  const TensorView x_TC = take(), y_TC = take();
  if (before > 0) kernels::copy(stream, text.tail_WC, x_TC.rows(0, before));
  kernels::copy(stream, saved.mixed.conv_TC.rows(first, T), x_TC.rows(before, T));
  kernels::causal_conv(stream, {1, before + T}, x_TC, in_type(pass, conv_.value, dtype),
                       y_TC);
  if (before > 0) kernels::copy(stream, x_TC.rows(T, before), text.tail_WC);
  kernels::delta_rule(stream, pass.scratch, rule,
                      rule_inputs(y_TC.rows(before, T), saved.g_TG.rows(first, T),
                                  saved.beta_TG.rows(first, T)),
                      saved.o_TGV.rows(first, T), {}, text.state);
}

void GatedDeltaNet::rule_backward(Pass& pass, const TensorView& do_TGV,
                                  const Saved& saved, const RuleColumns& d) {
  Stream& stream = pass.stream;
  const DType dtype = do_TGV.dtype(), wide = accumulator_of(dtype);
  const Shape gates = saved.g_TG.shape();
  const Range heads = rule_values(pass);
  const kernels::DeltaShape rule = shape_of_documents(pass);
  const auto of_heads = [&](const TensorView& all_G) {
    return all_G.rows(heads.begin, heads.count());
  };
  const TensorView dconv_TC =
      pass.scratch.take(dtype, saved.conv_TC.shape(), "delta.dconv");
  const TensorView ddecay_G = pass.fused_target(decay_, wide),
                   dbias_G = pass.fused_target(bias_, wide);
  {
    const ArenaScope scope(pass.scratch);
    const TensorView dg_TG = pass.scratch.take(wide, gates, "delta.dg"),
                     dbeta_TG = pass.scratch.take(wide, gates, "delta.dbeta");
    kernels::delta_rule_backward(stream, pass.scratch, rule, do_TGV,
                                 rule_inputs(saved.conv_TC, saved.g_TG, saved.beta_TG),
                                 saved.states, rule_inputs(dconv_TC, dg_TG, dbeta_TG));
    kernels::delta_gates_backward(stream, saved.mixed.a_TG, saved.mixed.b_TG,
                                  of_heads(in_type(pass, decay_.value, dtype)),
                                  of_heads(in_type(pass, bias_.value, dtype)), dg_TG,
                                  dbeta_TG, d.a_TG, d.b_TG);
    kernels::add_column_sums(stream, dg_TG, of_heads(ddecay_G));
    kernels::add_column_sums(stream, dbeta_TG, of_heads(dbias_G));
    pass.add_fused(decay_, ddecay_G);
    pass.add_fused(bias_, dbias_G);
  }
  conv_backward(pass, rule, dconv_TC, saved, d.conv_TC);
}

void GatedDeltaNet::conv_backward(Pass& pass, const kernels::DeltaShape& rule,
                                  const TensorView& dconv_TC, const Saved& saved,
                                  const TensorView& d_TC) {
  const DType dtype = dconv_TC.dtype();
  const TensorView dconv_CW = pass.fused_target(conv_, accumulator_of(dtype));
  const TensorView weight_CW = in_type(pass, conv_.value, dtype);
  for_channels(pass, [&](const Range& outside, const Range& inside) {
    const auto of_part = [&](const TensorView& x_TC) {
      return x_TC.columns(inside.begin, inside.count());
    };
    kernels::causal_conv_backward(
        pass.stream, {rule.batch, rule.sequence, rule.starts_T}, of_part(dconv_TC),
        of_part(saved.mixed.conv_TC), weight_CW.rows(outside.begin, outside.count()),
        of_part(d_TC), dconv_CW.rows(outside.begin, outside.count()));
  });
  pass.add_fused(conv_, dconv_CW);
}

void GatedDeltaNet::mixed_backward(Pass& pass, const TensorView& do_TGV,
                                   const Saved& saved, const RuleColumns& d) {
  const ArenaScope scope(pass.scratch);
  parallel::SequenceExchange* exchange = pass.attention.sequences();
  if (exchange == nullptr) return rule_backward(pass, do_TGV, saved, d);
  const DType dtype = do_TGV.dtype();
  const std::int64_t S = saved.conv_TC.dim(0), C = saved.conv_TC.dim(1),
                     G = rule_values(pass).count(), B = pass.microbatch.batch;
  const auto take = [&](std::int64_t width, const char* label) {
    return pass.scratch.take(dtype, {S, width}, label);
  };
  const TensorView do_all_TGV = take(G * config_.value_width, "delta.do");
  const RuleColumns d_all = rule_columns(pass, take(C + 2 * G, "delta.dmixed"));
  const parallel::SequenceExchange::Columns o[] = {{do_TGV, do_all_TGV}};
  exchange->to_heads(pass.stream, pass.scratch, B, o);
  rule_backward(pass, do_all_TGV, saved, d_all);
  exchange->to_rows(pass.stream, pass.scratch, B, exchanged(pass, d, d_all));
}

}  // namespace trireme::nn
