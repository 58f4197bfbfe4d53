// LatentAttention: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/latent_attention.hpp"

#include <cmath>

#include "kernels/heads.hpp"
#include "kernels/rope.hpp"
#include "nn/first_seen.hpp"
#include "nn/layout.hpp"

namespace trireme::nn {
namespace {

// Rows of `width` for each of this rank's heads.
Param rows_of_heads(const std::string& name, std::int64_t heads, std::int64_t width,
                    std::int64_t inputs, Range mine, double deviation) {
  return row_split_param(name + ".weight", {heads * width, inputs},
                         {mine.begin * width, mine.end * width},
                         {Initializer::Kind::normal, deviation});
}

}  // namespace

LatentAttention::LatentAttention(const LatentAttentionConfig& config,
                                 const parallel::TensorRegion& region,
                                 const RotaryTable& rotary)
    : config_(config),
      region_(region),
      rotary_(rotary),
      heads_(region.part(config.heads)) {
  require(
      config.rotary_width < config.head_width && config.value_width <= config.head_width,
      "heads of {} numbers cannot turn {} of them or have values of {}",
      config.head_width, config.rotary_width, config.value_width);
  const std::int64_t D = config.hidden, C = config.latent;
  const Initializer normal{Initializer::Kind::normal, config.deviation};
  const auto norm = [&](std::int64_t width, const std::string& name) {
    return NormConfig{NormKind::rms, width, config.norm_eps, 0, name, true};
  };
  for (std::int64_t h = heads_.begin; h < heads_.end; ++h)
    kv_head_.push_back(static_cast<std::int32_t>(h - heads_.begin));
  if (has_small_query()) {
    q_down_.weight = unsplit_inner_param(region, config.q_down + ".weight",
                                         {config.query_rank, D}, normal);
    q_norm_.emplace(norm(config.query_rank, config.q_norm), region);
  }
  q_.weight =
      rows_of_heads(config.q, config.heads, config.head_width,
                    has_small_query() ? config.query_rank : D, heads_, config.deviation);
  latent_down_.weight = unsplit_inner_param(region, config.latent_down + ".weight",
                                            {C + config.rotary_width, D}, normal);
  latent_norm_.emplace(norm(C, config.latent_norm), region);
  latent_up_.weight =
      rows_of_heads(config.latent_up, config.heads, plain_width() + config.value_width, C,
                    heads_, config.deviation);
  output_.weight = column_split_param(
      config.output + ".weight", {D, config.heads * config.value_width},
      {heads_.begin * config.value_width, heads_.end * config.value_width},
      {Initializer::Kind::normal, config.output_deviation});
  for (Linear* linear : {&q_, &latent_up_, &output_})
    linear->operands.set_precision(config.products);
  if (!config.bias) return;
  const auto inner_bias = [&](const std::string& name, std::int64_t width) {
    return unsplit_inner_param(region, name + ".bias", {width}, {});
  };
  if (has_small_query()) q_down_bias_ = inner_bias(config.q_down, config.query_rank);
  latent_down_bias_ = inner_bias(config.latent_down, C + config.rotary_width);
  output_bias_ = unsplit_param(region, config.output + ".bias", {D}, {});
}

LatentAttention::Columns LatentAttention::columns(const TensorView& fused_TE) const {
  const std::int64_t width = heads_.count() * config_.head_width;
  return {fused_TE.columns(0, width), fused_TE.columns(width, width),
          fused_TE.columns(2 * width, width)};
}

kernels::AttentionShape LatentAttention::shape(Pass& pass) const {
  const double scale = config_.scale > 0
                           ? config_.scale
                           : 1.0 / std::sqrt(static_cast<double>(config_.head_width));
  kernels::AttentionShape shape{pass.microbatch.batch,
                                pass.microbatch.sequence,
                                heads_.count(),
                                heads_.count(),
                                config_.head_width,
                                scale,
                                kv_head_};
  shape.first_T = first_seen(pass, config_.window);
  shape.dropout = attention_dropout(pass, config_.dropout, heads_, config_.heads);
  return shape;
}

void LatentAttention::rotate(Pass& pass, const TensorView& x, std::int64_t heads,
                             std::int64_t first, Direction direction) const {
  kernels::rope(pass.stream, x, {heads, first, config_.neighbours},
                pass.microbatch.positions_T, rotary_.of_text(pass.microbatch.text_length),
                direction);
}

LatentAttention::Entered LatentAttention::enter(Pass& pass, const TensorView& x_TD,
                                                Saved& saved) const {
  const DType dtype = x_TD.dtype();
  const std::int64_t T = pass.tokens();
  const TensorView q_THK = columns(saved.qkv_TE).q_THK;
  Entered in;
  if (has_small_query())
    in.q_small_TQ = pass.saved.take(dtype, {T, config_.query_rank}, "attention.q_small");
  in.latent_TC = pass.saved.take(dtype, {T, config_.latent + config_.rotary_width},
                                 "attention.latent");
  const bool in_parts = has_small_query() || q_.operands.rows_stand_alone();
  region_.enter(pass.stream, pass.scratch, x_TD, in_parts,
                [&](const Range& rows, const TensorView& x_RD) {
                  const auto part = [&rows](const TensorView& all) {
                    return all.rows(rows.begin, rows.count());
                  };
                  if (has_small_query())
                    q_down_.forward(pass, x_RD, q_down_bias_.value, part(in.q_small_TQ),
                                    saved.q_down);
                  else
                    q_.forward(pass, x_RD, {}, part(q_THK), saved.q);
                  latent_down_.forward(pass, x_RD, latent_down_bias_.value,
                                       part(in.latent_TC), saved.latent_down);
                });
  return in;
}

void LatentAttention::make_queries(Pass& pass, const Entered& in, Saved& saved) const {
  const TensorView q_THK = columns(saved.qkv_TE).q_THK;
  if (has_small_query()) {
    saved.q_small_TQ = pass.saved.take(in.q_small_TQ.dtype(), in.q_small_TQ.shape(),
                                       "attention.q_normed");
    q_norm_->forward(pass, in.q_small_TQ, saved.q_small_TQ, saved.q_norm);
    q_.forward(pass, saved.q_small_TQ, {}, q_THK, saved.q);
  }
  rotate(pass, q_THK, heads_.count(), plain_width(), Direction::forward);
}

void LatentAttention::make_latent(Pass& pass, const Entered& in, Saved& saved) const {
  const std::int64_t T = pass.tokens(), C = config_.latent, R = config_.rotary_width;
  saved.c_TC = pass.saved.take(in.latent_TC.dtype(), {T, C}, "attention.latent normed");
  rotate(pass, in.latent_TC.columns(C, R), 1, 0, Direction::forward);
  latent_norm_->forward(pass, in.latent_TC.columns(0, C), saved.c_TC, saved.latent_norm);
}

void LatentAttention::make_keys_and_values(Pass& pass, const TensorView& small_TC,
                                           Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType dtype = small_TC.dtype();
  const std::int64_t T = pass.tokens(), H = heads_.count(), C = config_.latent,
                     R = config_.rotary_width, N = plain_width(), V = config_.value_width;
  const TensorView up_TH = pass.scratch.take(dtype, {T, H * (N + V)}, "attention.up");
  latent_up_.forward(pass, saved.c_TC, {}, up_TH, saved.latent_up);
  const Columns out = columns(saved.qkv_TE);
  kernels::copy_heads(stream, {up_TH, H, 0}, {out.k_THK, H, 0}, N);
  kernels::copy_heads(stream, {small_TC, 1, C}, {out.k_THK, H, N}, R);
  kernels::copy_heads(stream, {up_TH, H, N}, {out.v_THK, H, 0}, V);
  const std::int64_t rest = config_.head_width - V;
  if (rest > 0) {  // no numbers of a value
    const TensorView zeros = pass.scratch.take(dtype, {T, rest}, "attention.zeros");
    kernels::fill(stream, zeros, 0.0);
    kernels::copy_heads(stream, {zeros, 1, 0}, {out.v_THK, H, V}, rest);
  }
}

void LatentAttention::attend(Pass& pass, Arena& arena, Saved& saved) const {
  const DType dtype = saved.qkv_TE.dtype();
  const std::int64_t T = pass.tokens(), H = heads_.count();
  const Columns in = columns(saved.qkv_TE);
  saved.o_TE = arena.take(dtype, {T, H * config_.head_width}, "attention.o");
  saved.lse_TH = arena.take(accumulator_of(dtype), {T, H}, "attention.lse");
  const ArenaScope scope(pass.scratch);
  pass.attention.forward(pass.stream, pass.scratch, shape(pass), in.q_THK, in.k_THK,
                         in.v_THK, saved.o_TE, saved.lse_TH);
}

void LatentAttention::attend_to_latents(Pass& pass, const TensorView& small_TC,
                                        const Saved& saved,
                                        const TensorView& o_THV) const {
  using kernels::Transpose;
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType dtype = small_TC.dtype();
  const std::int64_t T = pass.tokens(), H = heads_.count(), C = config_.latent,
                     R = config_.rotary_width, K = config_.head_width, N = K - R,
                     V = config_.value_width, W = C + R;
  const TensorView up = in_type(pass, latent_up_.weight.value, dtype);
  const auto take = [&](std::int64_t width) {
    return pass.scratch.take(dtype, {T, width}, "attention.wide");
  };
  const TensorView q = columns(saved.qkv_TE).q_THK, wide = take(H * W), key = take(W),
                   o = take(H * W);
  for (std::int64_t h = 0; h < H; ++h)
    kernels::gemm(stream, wide.columns(h * W, C), q.columns(h * K, N), Transpose::no,
                  up.rows(h * (N + V), N), Transpose::no);
  kernels::copy_heads(stream, {q, H, N}, {wide, H, C}, R);
  kernels::copy(stream, saved.c_TC, key.columns(0, C));
  kernels::copy(stream, small_TC.columns(C, R), key.columns(C, R));
  kernels::AttentionShape latent = shape(pass);
  latent.kv_heads = 1;
  latent.head_width = W;
  latent.kv_head.assign(static_cast<std::size_t>(H), 0);
  const TensorView lse_TH =
      pass.scratch.take(accumulator_of(dtype), {T, H}, "attention.lse");
  pass.attention.forward(stream, pass.scratch, latent, wide, key, key, o, lse_TH);
  for (std::int64_t h = 0; h < H; ++h)
    kernels::gemm(stream, o_THV.columns(h * V, V), o.columns(h * W, C), Transpose::no,
                  up.rows(h * (N + V) + N, V), Transpose::yes);
}

TensorView LatentAttention::values_of(Pass& pass, Arena& arena,
                                      const TensorView& o_TE) const {
  const std::int64_t H = heads_.count(), V = config_.value_width;
  if (V == config_.head_width) return o_TE;
  const TensorView o_THV =
      arena.take(o_TE.dtype(), {o_TE.dim(0), H * V}, "attention.values");
  kernels::copy_heads(pass.stream, {o_TE, H, 0}, {o_THV, H, 0}, V);
  return o_THV;
}

void LatentAttention::forward(Pass& pass, const TensorView& x_TD,
                              const Residual& residual, Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType dtype = x_TD.dtype();
  const Recompute& again = pass.recompute;
  const std::int64_t T = pass.tokens();
  saved.qkv_TE = pass.saved.take(dtype, {T, 3 * heads_.count() * config_.head_width},
                                 "attention.qkv");
  // 1. enter the region, 2. queries, keys and values, 3. o = softmax(q k^T) v
  const Entered in = enter(pass, x_TD, saved);
  make_queries(pass, in, saved);
  make_latent(pass, in, saved);
  TensorView o_THV;
  if (pass.attention.is_cached()) {
    o_THV = pass.scratch.take(dtype, {T, heads_.count() * config_.value_width},
                              "attention.values");
    attend_to_latents(pass, in.latent_TC, saved, o_THV);
  } else {
    make_keys_and_values(pass, in.latent_TC, saved);
    attend(pass, pass.kept_unless(again.attention), saved);
    o_THV = values_of(pass, pass.scratch, saved.o_TE);
  }
  // 4. y = o Wo^T, a partial sum
  const TensorView partial_TD =
      pass.scratch.take(dtype, {T, config_.hidden}, "attention.partial");
  const Linear::Input o = output_.input(pass, region_.cuts(), o_THV, saved.output);
  const auto product = [&](const Range& rows, const TensorView& to_TD) {
    output_.forward(pass, o.rows(rows), {}, to_TD, saved.output);
  };
  // 5. leave the region with it
  const TensorView sum_TD =
      region_.leave(stream, pass.scratch, partial_TD, product).wait();
  // 6. residual and bias
  residual.join(pass, sum_TD, output_bias_.value);
  saved.x_TD = again.norm ? TensorView{} : x_TD;
  if (again.attention) saved.o_TE = saved.lse_TH = {};
}

LatentAttention::Projected LatentAttention::queries_backward(Pass& pass,
                                                             const TensorView& dq_THK,
                                                             const Saved& saved,
                                                             const TensorView& dx_TD) {
  rotate(pass, dq_THK, heads_.count(), plain_width(), Direction::backward);
  const Linear::Gradient dq = q_.output_gradient(pass, dq_THK);
  if (!has_small_query()) {
    q_.input_gradient(pass, dq, dx_TD);
    return {.up = dq, .down = {}};
  }
  const Shape& small = saved.q_small_TQ.shape();
  const TensorView draw_TQ =
      pass.kept().take(dq_THK.dtype(), small, "attention.dq_small");
  {
    const ArenaScope scope(pass.scratch);
    const TensorView dnormed_TQ =
        pass.scratch.take(dq_THK.dtype(), small, "attention.dq_normed");
    q_.input_gradient(pass, dq, dnormed_TQ);
    q_norm_->backward(pass, dnormed_TQ, saved.q_norm, {}, draw_TQ);
  }
  const Linear::Gradient draw = q_down_.output_gradient(pass, draw_TQ);
  q_down_.input_gradient(pass, draw, dx_TD);
  return {dq, draw};
}

LatentAttention::Projected LatentAttention::keys_and_values_backward(
    Pass& pass, const Columns& d, const Saved& saved, const TensorView& dx_TD) {
  Stream& stream = pass.stream;
  const DType dtype = d.k_THK.dtype();
  const std::int64_t T = pass.tokens(), H = heads_.count(), C = config_.latent,
                     R = config_.rotary_width, N = plain_width(), V = config_.value_width;
  const TensorView dup_TH = pass.kept().take(dtype, {T, H * (N + V)}, "attention.dup");
  kernels::copy_heads(stream, {d.k_THK, H, 0}, {dup_TH, H, 0}, N);
  kernels::copy_heads(stream, {d.v_THK, H, 0}, {dup_TH, H, N}, V);
  const TensorView dsmall_TC = pass.kept().take(dtype, {T, C + R}, "attention.dlatent");
  kernels::sum_heads(stream, {d.k_THK, H, N}, {dsmall_TC, 1, C}, R);
  rotate(pass, dsmall_TC.columns(C, R), 1, 0, Direction::backward);
  const Linear::Gradient dup = latent_up_.output_gradient(pass, dup_TH);
  {
    const ArenaScope scope(pass.scratch);
    const TensorView dc_TC = pass.scratch.take(dtype, {T, C}, "attention.dc");
    latent_up_.input_gradient(pass, dup, dc_TC);
    latent_norm_->backward(pass, dc_TC, saved.latent_norm, {}, dsmall_TC.columns(0, C));
  }
  const Linear::Gradient dsmall = latent_down_.output_gradient(pass, dsmall_TC);
  latent_down_.input_gradient(pass, dsmall, dx_TD, kernels::Accumulate::yes);
  return {dup, dsmall};
}

void LatentAttention::post_gradients(Pass& pass, const Projected& queries,
                                     const Projected& latent, const Saved& saved) {
  if (has_small_query()) {
    q_.post_weight_gradient(pass, queries.up, saved.q_small_TQ, saved.q);
    q_down_.post_gradients(pass, queries.down, saved.x_TD, saved.q_down, q_down_bias_);
  } else {
    q_.post_weight_gradient(pass, queries.up, saved.x_TD, saved.q);
  }
  latent_up_.post_weight_gradient(pass, latent.up, saved.c_TC, saved.latent_up);
  latent_down_.post_gradients(pass, latent.down, saved.x_TD, saved.latent_down,
                              latent_down_bias_);
}

TensorView LatentAttention::backward(Pass& pass, const TensorView& dy_TD, Saved saved) {
  Stream& stream = pass.stream;
  const DType dtype = dy_TD.dtype();
  const std::int64_t T = pass.tokens(), H = heads_.count(), V = config_.value_width;
  const TensorView dx_all_TD =
      pass.scratch.take(dtype, {T, config_.hidden}, "attention.dx");
  // 5. leave; beside its communication 6. bias, and 3. once more, if it was not kept
  auto dy_all = region_.leave_backward(stream, pass.kept(), dy_TD);
  if (config_.bias) {
    pass.weight_gradients.post(stream, output_bias_, [this, dy_TD](Stream& on) {
      kernels::add_column_sums(on, dy_TD, output_bias_.gradient);
    });
  }
  if (saved.o_TE.empty()) attend(pass, pass.kept(), saved);
  const TensorView o_THV = values_of(pass, pass.kept(), saved.o_TE);
  const TensorView dy_all_TD = dy_all.wait();
  // 1. enter once more, for dW of 2.: beside the products of 4.
  auto x_all = region_.enter(stream, pass.kept(), saved.x_TD);
  // 4. output projection
  const TensorView do_TE = pass.scratch.take(dtype, saved.o_TE.shape(), "attention.do");
  const Linear::Gradient dy = output_.output_gradient(pass, dy_all_TD);
  if (V == config_.head_width) {
    output_.input_gradient(pass, dy, do_TE);
  } else {
    const ArenaScope scope(pass.scratch);
    const TensorView dvalues_THV =
        pass.scratch.take(dtype, o_THV.shape(), "attention.dvalues");
    output_.input_gradient(pass, dy, dvalues_THV);
    kernels::fill(stream, do_TE, 0.0);
    kernels::copy_heads(stream, {dvalues_THV, H, 0}, {do_TE, H, 0}, V);
  }
  output_.post_weight_gradient(pass, dy, o_THV, saved.output);
  // 3. core
  const TensorView dqkv_TE =
      pass.kept().take(dtype, saved.qkv_TE.shape(), "attention.dqkv");
  const Columns in = columns(saved.qkv_TE), d = columns(dqkv_TE);
  pass.attention.backward(stream, pass.scratch, shape(pass), do_TE, in.q_THK, in.k_THK,
                          in.v_THK, saved.o_TE, saved.lse_TH, d.q_THK, d.k_THK, d.v_THK);
  // 2. queries, keys and values: the input's gradient first, so that 1. its communication
  // overlaps with those of weights
  saved.x_TD = x_all.wait();
  const Projected queries = queries_backward(pass, d.q_THK, saved, dx_all_TD);
  const Projected latent = keys_and_values_backward(pass, d, saved, dx_all_TD);
  auto dx = region_.enter_backward(stream, pass.scratch, dx_all_TD);
  post_gradients(pass, queries, latent, saved);
  return dx.wait();
}

void LatentAttention::collect(std::vector<Param*>& params) {
  const auto push_bias = [&](Param& bias) {
    if (config_.bias) params.push_back(&bias);
  };
  if (has_small_query()) {
    q_down_.collect(params);
    push_bias(q_down_bias_);
    q_norm_->collect(params);
  }
  q_.collect(params);
  latent_down_.collect(params);
  push_bias(latent_down_bias_);
  latent_norm_->collect(params);
  latent_up_.collect(params);
  latent_up_.weight.takes_codes = false;  // attend_to_latents() cuts its numbers
  output_.collect(params);
  push_bias(output_bias_);
}

void LatentAttention::attach(const AdapterConfig& adapters) {
  for (Linear* linear : {&q_down_, &q_, &latent_down_, &latent_up_, &output_})
    linear->adapter.attach(adapters, region_);
}

void LatentAttention::collect(std::vector<Fp8Operands*>& layers) {
  for (Linear* linear : {&q_, &latent_up_, &output_}) layers.push_back(&linear->operands);
}

}  // namespace trireme::nn
