// Attention: layout of the fused projection, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/attention.hpp"

#include <cmath>

#include "kernels/activation.hpp"
#include "kernels/attention_sinks.hpp"
#include "kernels/rope.hpp"
#include "nn/first_seen.hpp"
#include "nn/layout.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {
struct Attention::Columns {
  TensorView q_THK, k_TGK, v_TGK, gate_THK;
};

Attention::Attention(const AttentionConfig& config, const parallel::TensorRegion& region,
                     const RotaryTable& rotary)
    : config_(config),
      region_(region),
      rotary_(rotary),
      head_width_(config.head_width),
      heads_(config, region) {
  const std::int64_t queries = config.heads / config.kv_heads;
  for (std::int64_t h = heads_.queries.begin; h < heads_.queries.end; ++h) {
    kv_head_.push_back(static_cast<std::int32_t>(h / queries - heads_.keys.begin));
  }
  const Range columns{heads_.queries.begin * head_width_,
                      heads_.queries.end * head_width_};
  qkv_.weight = heads_.fused(".weight", true);
  output_.weight = column_split_param(
      config.output + ".weight", {config.hidden, config.heads * config.head_width},
      columns, {Initializer::Kind::normal, config.output_deviation});
  qkv_.operands.set_precision(config.products);
  output_.operands.set_precision(config.products);
  if (config.qkv_bias) qkv_bias_ = heads_.fused(".bias", false);
  if (config.output_bias)
    output_bias_ = unsplit_param(region, config.output + ".bias", {config.hidden}, {});
  if (!config.sinks.empty()) sinks_ = heads_.sinks();
  if (config.qk_norm == QkNorm::wide) {
    const std::int64_t K = head_width_, first = heads_.keys.begin;
    const Range owned = heads_.owned_keys();
    q_wide_.emplace(heads_.query_gain(), config.heads * K, config.head_norms.eps,
                    Range{0, heads_.queries.count() * K}, region);
    k_wide_.emplace(heads_.key_gain(), config.kv_heads * K, config.head_norms.eps,
                    Range{(owned.begin - first) * K, (owned.end - first) * K}, region);
  } else if (config.qk_norm == QkNorm::heads) {
    const auto norm = [&](const std::string& name) {
      return NormConfig{NormKind::rms,
                        config.head_width,
                        config.head_norms.eps,
                        config.head_norms.gain_offset,
                        name,
                        true};
    };
    q_norm_.emplace(norm(config.q_norm), region);
    k_norm_.emplace(norm(config.k_norm), region);
  }
}

Attention::Columns Attention::columns(const TensorView& fused_TE) const {
  const std::int64_t q = heads_.queries.count() * head_width_,
                     kv = heads_.keys.count() * head_width_;
  return {fused_TE.columns(0, q), fused_TE.columns(q, kv), fused_TE.columns(q + kv, kv),
          config_.output_gate() ? fused_TE.columns(q + 2 * kv, q) : TensorView()};
}

kernels::AttentionShape Attention::shape(Pass& pass) const {
  kernels::AttentionShape shape{pass.microbatch.batch,
                                pass.microbatch.sequence,
                                heads_.queries.count(),
                                heads_.keys.count(),
                                head_width_,
                                config_.scale > 0
                                    ? config_.scale
                                    : 1.0 / std::sqrt(static_cast<double>(head_width_)),
                                kv_head_,
                                {},
                                config_.cap};
  shape.first_T = first_seen(pass, config_.window);
  shape.dropout = attention_dropout(pass, config_.dropout, heads_.queries, config_.heads);
  return shape;
}

void Attention::norm_heads(Pass& pass, Saved& saved) const {
  const auto one = [&](const Norm& norm, const TensorView& x_THK, Norm::Saved& kept) {
    const Shape heads = {x_THK.elements() / head_width_, head_width_};
    const TensorView raw_THK =
        pass.saved.take(x_THK.dtype(), x_THK.shape(), "attention.heads");
    const ArenaScope scope(pass.scratch);
    const TensorView normed_THK =
        pass.scratch.take(x_THK.dtype(), x_THK.shape(), "attention.normed");
    kernels::copy(pass.stream, x_THK, raw_THK);
    norm.forward(pass, raw_THK.reshape(heads), normed_THK.reshape(heads), kept);
    kernels::copy(pass.stream, normed_THK, x_THK);
  };
  const Columns in = columns(saved.qkv_TE);
  if (q_wide_) {
    q_wide_->forward(pass, in.q_THK, saved.q_wide);
    k_wide_->forward(pass, in.k_TGK, saved.k_wide);
    return;
  }
  one(*q_norm_, in.q_THK, saved.q_norm);
  one(*k_norm_, in.k_TGK, saved.k_norm);
}

// The gradients of the norms' weights are of this rank's heads and tokens, a part of
// their sum.
void Attention::norm_heads_backward(Pass& pass, const TensorView& dqkv_TE,
                                    const Saved& saved) {
  const auto one = [&](Norm& norm, const TensorView& d_THK, const Norm::Saved& kept) {
    const Shape& heads = kept.x_TD.shape();
    const ArenaScope scope(pass.scratch);
    const auto take = [&](const char* label) {
      return pass.scratch.take(d_THK.dtype(), d_THK.shape(), label);
    };
    const TensorView dnormed_THK = take("attention.dnormed"),
                     draw_THK = take("attention.dheads");
    kernels::copy(pass.stream, d_THK, dnormed_THK);
    norm.backward(pass, dnormed_THK.reshape(heads), kept, {}, draw_THK.reshape(heads));
    kernels::copy(pass.stream, draw_THK, d_THK);
  };
  const Columns d = columns(dqkv_TE);
  if (q_wide_) {
    q_wide_->backward(pass, d.q_THK, saved.q_wide);
    k_wide_->backward(pass, d.k_TGK, saved.k_wide);
    return;
  }
  one(*q_norm_, d.q_THK, saved.q_norm);
  one(*k_norm_, d.k_TGK, saved.k_norm);
}

void Attention::rotate(Pass& pass, const TensorView& qkv_TE, Direction direction) const {
  const std::int64_t rotated = heads_.queries.count() + heads_.keys.count();
  kernels::rope(pass.stream, qkv_TE.columns(0, rotated * head_width_),
                {rotated, 0, config_.neighbours}, pass.microbatch.positions_T,
                rotary_.of_text(pass.microbatch.text_length), direction);
}

void Attention::attend(Pass& pass, Arena& arena, Saved& saved) const {
  const DType dtype = saved.qkv_TE.dtype();
  const std::int64_t T = pass.tokens(), H = heads_.queries.count();
  const Columns in = columns(saved.qkv_TE);
  saved.o_TE = arena.take(dtype, {T, H * head_width_}, "attention.o");
  saved.lse_TH = arena.take(accumulator_of(dtype), {T, H}, "attention.lse");
  const ArenaScope scope(pass.scratch);
  pass.attention.forward(pass.stream, pass.scratch, shape(pass), in.q_THK, in.k_TGK,
                         in.v_TGK, saved.o_TE, saved.lse_TH);
  if (!config_.sinks.empty())
    kernels::add_sinks(pass.stream, in_type(pass, sinks_.value, dtype), saved.o_TE,
                       saved.lse_TH);
}

TensorView Attention::gate(Pass& pass, Arena& arena, const Saved& saved) const {
  if (!config_.output_gate()) return saved.o_TE;
  const std::int64_t T = pass.tokens(), width = saved.o_TE.dim(1);
  const TensorView y_TE = arena.take(saved.o_TE.dtype(), {T, width}, "attention.gated");
  const ArenaScope scope(pass.scratch);
  const TensorView pair =
      pass.scratch.take(saved.o_TE.dtype(), {T, 2 * width}, "attention.gate");
  kernels::copy(pass.stream, columns(saved.qkv_TE).gate_THK, pair.columns(0, width));
  kernels::copy(pass.stream, saved.o_TE, pair.columns(width, width));
  kernels::activate(pass.stream, Activation::glu, pair, y_TE);
  return y_TE;
}

void Attention::gate_backward(Pass& pass, const TensorView& do_TE, const Saved& saved,
                              const TensorView& dqkv_TE) const {
  if (!config_.output_gate()) return;
  const std::int64_t T = pass.tokens(), width = do_TE.dim(1);
  const ArenaScope scope(pass.scratch);
  const auto take = [&] {
    return pass.scratch.take(do_TE.dtype(), {T, 2 * width}, "attention.gate");
  };
  const TensorView pair = take(), dpair = take();
  kernels::copy(pass.stream, columns(saved.qkv_TE).gate_THK, pair.columns(0, width));
  kernels::copy(pass.stream, saved.o_TE, pair.columns(width, width));
  kernels::activate_backward(pass.stream, Activation::glu, do_TE, pair, dpair);
  kernels::copy(pass.stream, dpair.columns(0, width), columns(dqkv_TE).gate_THK);
  kernels::copy(pass.stream, dpair.columns(width, width), do_TE);
}

void Attention::sinks_backward(Pass& pass, const TensorView& do_TE, const Saved& saved) {
  const DType sums = saved.lse_TH.dtype();
  const TensorView dsinks_H = pass.fused_target(sinks_, sums);
  const ArenaScope scope(pass.scratch);
  const TensorView terms_TH =
      pass.scratch.take(sums, saved.lse_TH.shape(), "attention.sinks");
  kernels::sink_gradients(pass.stream, in_type(pass, sinks_.value, do_TE.dtype()), do_TE,
                          saved.o_TE, saved.lse_TH, terms_TH);
  kernels::add_column_sums(pass.stream, terms_TH, dsinks_H);
  pass.add_fused(sinks_, dsinks_H);
}

void Attention::forward(Pass& pass, const TensorView& x_TD, const Residual& residual,
                        Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType dtype = x_TD.dtype();
  const Recompute& again = pass.recompute;
  const std::int64_t T = pass.tokens(), D = config_.hidden;
  // 1. enter the region; 2. qkv = x W^T + b
  saved.qkv_TE = pass.saved.take(dtype, {T, qkv_.weight.shape[0]}, "attention.qkv");
  region_.enter(stream, pass.scratch, x_TD, qkv_.operands.rows_stand_alone(),
                [&](const Range& rows, const TensorView& x_RD) {
                  qkv_.forward(pass, x_RD, qkv_bias_.value,
                               saved.qkv_TE.rows(rows.begin, rows.count()), saved.qkv);
                });
  // 3. norms of the heads
  if (config_.qk_norm != QkNorm::none) norm_heads(pass, saved);
  // 4. rotate q and k
  if (config_.rotary) rotate(pass, saved.qkv_TE, Direction::forward);
  // 5. o = softmax(q k^T) v, with sinks
  attend(pass, pass.kept_unless(again.attention), saved);
  // 6. gates, and y = o Wo^T, a partial sum
  const TensorView gated_TE = gate(pass, pass.scratch, saved);
  const TensorView partial_TD = pass.scratch.take(dtype, {T, D}, "attention.partial");
  const Linear::Input gated = output_.input(pass, region_.cuts(), gated_TE, saved.output);
  const auto product = [&](const Range& rows, const TensorView& to_TD) {
    output_.forward(pass, gated.rows(rows), {}, to_TD, saved.output);
  };
  // 7. leave the region with it
  const TensorView sum_TD =
      region_.leave(stream, pass.scratch, partial_TD, product).wait();
  // 8. residual and bias
  residual.join(pass, sum_TD, output_bias_.value);
  if (!again.norm) saved.x_TD = x_TD;
  if (again.attention) saved.o_TE = saved.lse_TH = {};
}

void Attention::sum_shared_heads(Pass& pass, const TensorView& dqkv_TE) const {
  Stream& stream = pass.stream;
  const ArenaScope scope(pass.scratch);
  const std::int64_t T = pass.tokens(), K = head_width_, G = config_.kv_heads;
  const auto take = [&](std::int64_t width) {
    const TensorView zeros =
        pass.scratch.take(dqkv_TE.dtype(), {T, width}, "attention.shared");
    kernels::fill(stream, zeros, 0.0);
    return zeros;
  };
  const TensorView all_T2GK = take(2 * G * K), none_TK = take(K);
  const auto for_each_head = [&](const auto& body) {
    for (std::int64_t part = 0; part < 2; ++part)  // of k and of v
      for (std::int64_t g = heads_.keys.begin; g < heads_.keys.end; ++g) {
        const std::int64_t head =
            heads_.queries.count() + part * heads_.keys.count() + g - heads_.keys.begin;
        body(g, dqkv_TE.columns(head * K, K), all_T2GK.columns((part * G + g) * K, K));
      }
  };
  for_each_head([&](std::int64_t, const TensorView& mine, const TensorView& whole) {
    kernels::copy(stream, mine, whole);
  });
  region_.sum(stream, all_T2GK);
  for_each_head([&](std::int64_t g, const TensorView& mine, const TensorView& whole) {
    kernels::copy(stream, heads_.owns_key(g) ? whole : none_TK, mine);
  });
}

TensorView Attention::backward(Pass& pass, const TensorView& dy_TD, Saved saved) {
  Stream& stream = pass.stream;
  const DType dtype = dy_TD.dtype();
  const std::int64_t T = pass.tokens(), D = config_.hidden;
  const TensorView dx_all_TD = pass.scratch.take(dtype, {T, D}, "attention.dx");
  // 7. leave; beside its communication, what does not need its result: 8. bias, and 5.
  // once more, if it was not kept
  auto dy_all = region_.leave_backward(stream, pass.kept(), dy_TD);
  if (config_.output_bias) {
    pass.weight_gradients.post(stream, output_bias_, [this, dy_TD](Stream& on) {
      kernels::add_column_sums(on, dy_TD, output_bias_.gradient);
    });
  }
  if (saved.o_TE.empty()) attend(pass, pass.kept(), saved);
  const TensorView dy_all_TD = dy_all.wait();
  // 1. enter once more, for dW of 2.: beside the products of 6.
  auto x_all = region_.enter(stream, pass.kept(), saved.x_TD);
  // 6. output projection and gates
  const TensorView do_TE = pass.scratch.take(dtype, saved.o_TE.shape(), "attention.do");
  const Linear::Gradient dy = output_.output_gradient(pass, dy_all_TD);
  output_.input_gradient(pass, dy, do_TE);
  output_.post_weight_gradient(pass, dy, gate(pass, pass.kept(), saved), saved.output);
  const TensorView dqkv_TE =
      pass.kept().take(dtype, saved.qkv_TE.shape(), "attention.dqkv");
  gate_backward(pass, do_TE, saved, dqkv_TE);
  // 5. core
  if (!config_.sinks.empty()) sinks_backward(pass, do_TE, saved);
  const Columns in = columns(saved.qkv_TE), out = columns(dqkv_TE);
  pass.attention.backward(stream, pass.scratch, shape(pass), do_TE, in.q_THK, in.k_TGK,
                          in.v_TGK, saved.o_TE, saved.lse_TH, out.q_THK, out.k_TGK,
                          out.v_TGK);
  // 4. rotation
  if (config_.rotary) rotate(pass, dqkv_TE, Direction::backward);
  // 3. norms of the heads
  if (config_.qk_norm != QkNorm::none) norm_heads_backward(pass, dqkv_TE, saved);
  if (heads_.shared && qkv_.operands.fp8()) sum_shared_heads(pass, dqkv_TE);
  // 2. projection: the input gradient first, so that 1. its communication overlaps with
  // dW
  const Linear::Gradient dqkv =
      qkv_.cut_gradient(pass, region_.cuts(), qkv_.output_gradient(pass, dqkv_TE));
  saved.x_TD = x_all.wait();
  auto dx = region_.enter_backward(stream, pass.scratch, dx_all_TD,
                                   [&](const Range& rows, const TensorView& to_TD) {
                                     qkv_.input_gradient(pass, dqkv.rows(rows), to_TD);
                                   });
  qkv_.post_gradients(pass, dqkv, saved.x_TD, saved.qkv, qkv_bias_);
  return dx.wait();
}

void Attention::collect(std::vector<Param*>& params) {
  qkv_.collect(params);
  if (config_.qkv_bias) params.push_back(&qkv_bias_);
  if (q_norm_) q_norm_->collect(params);
  if (k_norm_) k_norm_->collect(params);
  if (q_wide_) q_wide_->collect(params);
  if (k_wide_) k_wide_->collect(params);
  if (!config_.sinks.empty()) params.push_back(&sinks_);
  output_.collect(params);
  if (config_.output_bias) params.push_back(&output_bias_);
}

void Attention::attach(const AdapterConfig& adapters) {
  qkv_.adapter.attach(adapters, region_);
  output_.adapter.attach(adapters, region_);
}

void Attention::collect(std::vector<Fp8Operands*>& layers) {
  layers.push_back(&qkv_.operands);
  layers.push_back(&output_.operands);
}

}  // namespace trireme::nn
