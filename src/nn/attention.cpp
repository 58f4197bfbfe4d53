// Attention: layout of the fused projection, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/attention.hpp"

#include <cmath>

#include "kernels/rope.hpp"
#include "nn/layout.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {
namespace {

// The query heads that key/value head `g` serves.
Range queries_of(const AttentionConfig& config, std::int64_t g) {
  const std::int64_t queries = config.heads / config.kv_heads;
  return {g * queries, (g + 1) * queries};
}

// A key/value head belongs to the rank that has the first of its query heads.
bool owns_kv_head(const AttentionConfig& config, Range heads, std::int64_t g) {
  const std::int64_t first = queries_of(config, g).begin;
  return heads.begin <= first && first < heads.end;
}

// Whether some key/value head lies on more than one rank.
bool shares_kv_heads(const AttentionConfig& config,
                     const parallel::TensorRegion& region) {
  for (std::int64_t g = 0; g < config.kv_heads; ++g)
    if (!region.in_one_part(config.heads, queries_of(config, g))) return true;
  return false;
}

// Builds the boxes of the fused rows [q; k; v] of a rank, for the weight and for the
// bias.
class FusedRows {
 public:
  FusedRows(const AttentionConfig& config, const char* suffix, bool matrix)
      : config_(config), suffix_(suffix), matrix_(matrix) {}

  // Heads [heads) of the part `part` (0 q, 1 k, 2 v), which has `total` heads in all.
  void add(Param& param, int part, Range heads, std::int64_t total, bool shared,
           bool owned) {
    const std::int64_t width = config_.head_width, queries = config_.heads * width;
    const bool fused = config_.k.empty();
    const std::string& name = fused || part == 0 ? config_.q
                              : part == 1        ? config_.k
                                                 : config_.v;
    const std::int64_t rows = heads.count() * width;
    const std::int64_t whole = fused ? 3 * queries : total * width;
    const std::int64_t begin = heads.begin * width + (fused ? part * queries : 0);
    param.boxes.push_back({name + suffix_, box(whole), corner(next_), corner(begin),
                           box(rows), shared ? Place::replicate : Place::varying, owned});
    next_ += rows;
  }
  std::int64_t rows() const { return next_; }
  Shape box(std::int64_t rows) const {
    return matrix_ ? Shape{rows, config_.hidden} : Shape{rows};
  }

 private:
  Shape corner(std::int64_t row) const { return matrix_ ? Shape{row, 0} : Shape{row}; }

  const AttentionConfig& config_;
  std::string suffix_;
  bool matrix_;
  std::int64_t next_ = 0;
};

Param fused_param(const AttentionConfig& config, const parallel::TensorRegion& region,
                  Range heads, Range kv_heads, const char* suffix, bool matrix) {
  Param param;
  param.name = config.q + suffix;
  param.decay = matrix;
  if (matrix) param.initializer = {Initializer::Kind::normal, config.deviation};
  FusedRows fused(config, suffix, matrix);
  fused.add(param, 0, heads, config.heads, false, true);
  const bool shared = shares_kv_heads(config, region);
  for (int part = 1; part <= 2; ++part) {
    for (std::int64_t g = kv_heads.begin; g < kv_heads.end; ++g) {
      const bool owned = owns_kv_head(config, heads, g);
      fused.add(param, part, {g, g + 1}, config.kv_heads, shared, owned);
    }
  }
  param.shape = fused.box(fused.rows());
  return param;
}

}  // namespace

struct Attention::Columns {
  TensorView q_THK, k_TGK, v_TGK;
};

Attention::Attention(const AttentionConfig& config, const parallel::TensorRegion& region,
                     const TensorView& cos_sin)
    : config_(config),
      region_(region),
      cos_sin_(cos_sin),
      head_width_(config.head_width),
      heads_(region.part(config.heads)) {
  const std::int64_t queries = config.heads / config.kv_heads;
  kv_heads_ = {heads_.begin / queries, (heads_.end - 1) / queries + 1};
  shared_kv_heads_ = shares_kv_heads(config, region);
  for (std::int64_t h = heads_.begin; h < heads_.end; ++h) {
    kv_head_.push_back(static_cast<std::int32_t>(h / queries - kv_heads_.begin));
  }
  const Range columns{heads_.begin * head_width_, heads_.end * head_width_};
  qkv_.weight = fused_param(config, region, heads_, kv_heads_, ".weight", true);
  output_.weight = column_split_param(
      config.output + ".weight", {config.hidden, config.heads * config.head_width},
      columns, {Initializer::Kind::normal, config.output_deviation});
  qkv_.operands.set_precision(config.products);
  output_.operands.set_precision(config.products);
  if (config.qkv_bias)
    qkv_bias_ = fused_param(config, region, heads_, kv_heads_, ".bias", false);
  if (config.output_bias)
    output_bias_ = unsplit_param(region, config.output + ".bias", {config.hidden}, {});
  if (config.qk_norm) {
    const auto norm = [&](const std::string& name) {
      return NormConfig{NormKind::rms, config.head_width, config.norm_eps, name, true};
    };
    q_norm_.emplace(norm(config.q_norm), region);
    k_norm_.emplace(norm(config.k_norm), region);
  }
}

Attention::Columns Attention::columns(const TensorView& fused_TE) const {
  const std::int64_t q = heads_.count() * head_width_,
                     kv = kv_heads_.count() * head_width_;
  return {fused_TE.columns(0, q), fused_TE.columns(q, kv), fused_TE.columns(q + kv, kv)};
}

kernels::AttentionShape Attention::shape(Pass& pass) const {
  kernels::AttentionShape shape{pass.microbatch.batch,
                                pass.microbatch.sequence,
                                heads_.count(),
                                kv_heads_.count(),
                                head_width_,
                                1.0 / std::sqrt(static_cast<double>(head_width_)),
                                kv_head_};
  if (config_.window > 0) {
    shape.first_T =
        pass.scratch.take(DType::i32, {pass.tokens()}, "attention.window starts");
    kernels::window_starts(pass.stream, pass.microbatch.positions_T, config_.window,
                           shape.first_T);
  }
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
  one(*q_norm_, d.q_THK, saved.q_norm);
  one(*k_norm_, d.k_TGK, saved.k_norm);
}

void Attention::attend(Pass& pass, Arena& arena, Saved& saved) const {
  const DType dtype = saved.qkv_TE.dtype();
  const std::int64_t T = pass.tokens(), H = heads_.count();
  const Columns in = columns(saved.qkv_TE);
  saved.o_TE = arena.take(dtype, {T, H * head_width_}, "attention.o");
  saved.lse_TH = arena.take(accumulator_of(dtype), {T, H}, "attention.lse");
  const ArenaScope scope(pass.scratch);
  pass.attention.forward(pass.stream, pass.scratch, shape(pass), in.q_THK, in.k_TGK,
                         in.v_TGK, saved.o_TE, saved.lse_TH);
}

void Attention::forward(Pass& pass, const TensorView& x_TD, const Residual& residual,
                        Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType dtype = x_TD.dtype();
  const Recompute& again = pass.recompute;
  const std::int64_t T = pass.tokens(), D = config_.hidden;
  const std::int64_t rotated = heads_.count() + kv_heads_.count();
  // 1. enter the region
  saved.x_TD = region_.enter(stream, pass.kept_unless(again.norm), x_TD).wait();
  // 2. qkv = x W^T + b
  saved.qkv_TE = pass.saved.take(dtype, {T, qkv_.weight.shape[0]}, "attention.qkv");
  qkv_.forward(pass, saved.x_TD, qkv_bias_.value, saved.qkv_TE, saved.qkv);
  // 3. norms of the heads
  if (config_.qk_norm) norm_heads(pass, saved);
  // 4. rotate q and k
  if (config_.rotary) {
    kernels::rope(stream, saved.qkv_TE.columns(0, rotated * head_width_), rotated,
                  pass.microbatch.positions_T, cos_sin_, Direction::forward);
  }
  // 5. o = softmax(q k^T) v
  attend(pass, pass.kept_unless(again.attention), saved);
  // 6. y = o Wo^T, a partial sum
  const TensorView partial_TD = pass.scratch.take(dtype, {T, D}, "attention.partial");
  const auto product = [&](const Range& rows, const TensorView& to_TD) {
    output_.forward(pass, saved.o_TE.rows(rows.begin, rows.count()), {}, to_TD,
                    saved.output);
  };
  // 7. leave the region with it
  const TensorView sum_TD =
      region_.leave(stream, pass.scratch, partial_TD, product).wait();
  // 8. residual and bias
  residual.join(pass, sum_TD, output_bias_.value);
  if (again.norm) saved.x_TD = {};
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
      for (std::int64_t g = kv_heads_.begin; g < kv_heads_.end; ++g)
        body(
            g,
            dqkv_TE.columns(
                (heads_.count() + part * kv_heads_.count() + g - kv_heads_.begin) * K, K),
            all_T2GK.columns((part * G + g) * K, K));
  };
  for_each_head([&](std::int64_t, const TensorView& mine, const TensorView& whole) {
    kernels::copy(stream, mine, whole);
  });
  region_.sum(stream, all_T2GK);
  for_each_head([&](std::int64_t g, const TensorView& mine, const TensorView& whole) {
    const bool owned = owns_kv_head(config_, heads_, g);
    kernels::copy(stream, owned ? whole : none_TK, mine);
  });
}

TensorView Attention::backward(Pass& pass, const TensorView& dy_TD, Saved saved) {
  Stream& stream = pass.stream;
  const DType dtype = dy_TD.dtype();
  const std::int64_t T = pass.tokens(), D = config_.hidden;
  const std::int64_t rotated = heads_.count() + kv_heads_.count();
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
  // 6. output projection
  const TensorView do_TE = pass.scratch.take(dtype, saved.o_TE.shape(), "attention.do");
  const Linear::Gradient dy = output_.output_gradient(pass, dy_all_TD);
  output_.input_gradient(pass, dy, do_TE);
  output_.post_weight_gradient(pass, dy, saved.o_TE, saved.output);
  // 5. core
  const TensorView dqkv_TE =
      pass.kept().take(dtype, saved.qkv_TE.shape(), "attention.dqkv");
  const Columns in = columns(saved.qkv_TE), out = columns(dqkv_TE);
  pass.attention.backward(stream, pass.scratch, shape(pass), do_TE, in.q_THK, in.k_TGK,
                          in.v_TGK, saved.o_TE, saved.lse_TH, out.q_THK, out.k_TGK,
                          out.v_TGK);
  // 4. rotation
  if (config_.rotary) {
    kernels::rope(stream, dqkv_TE.columns(0, rotated * head_width_), rotated,
                  pass.microbatch.positions_T, cos_sin_, Direction::backward);
  }
  // 3. norms of the heads
  if (config_.qk_norm) norm_heads_backward(pass, dqkv_TE, saved);
  if (shared_kv_heads_ && qkv_.operands.fp8()) sum_shared_heads(pass, dqkv_TE);
  // 2. projection: the input gradient first, so that 1. its communication overlaps with
  // dW
  const Linear::Gradient dqkv = qkv_.output_gradient(pass, dqkv_TE);
  auto dx = region_.enter_backward(stream, pass.scratch, dx_all_TD,
                                   [&](const Range& rows, const TensorView& to_TD) {
                                     qkv_.input_gradient(pass, dqkv.rows(rows), to_TD);
                                   });
  qkv_.post_gradients(pass, dqkv, saved.x_TD, saved.qkv, qkv_bias_);
  return dx.wait();
}

void Attention::collect(std::vector<Param*>& params) {
  params.push_back(&qkv_.weight);
  if (config_.qkv_bias) params.push_back(&qkv_bias_);
  if (q_norm_) q_norm_->collect(params);
  if (k_norm_) k_norm_->collect(params);
  params.push_back(&output_.weight);
  if (config_.output_bias) params.push_back(&output_bias_);
}

void Attention::collect(std::vector<Fp8Operands*>& layers) {
  layers.push_back(&qkv_.operands);
  layers.push_back(&output_.operands);
}

}  // namespace trireme::nn
