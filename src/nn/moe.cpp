// Moe: forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "nn/moe.hpp"

#include <algorithm>
#include <cmath>

#include "base/device_memory.hpp"
#include "kernels/activation.hpp"
#include "kernels/moe.hpp"

namespace trireme::nn {
namespace {

// Appends the storage of one more expert below those in `all`.
void append_expert(Param& all, Param one) {
  one.expert = true;
  if (all.boxes.empty()) {
    all = std::move(one);
    return;
  }
  for (NamedBox& named : one.boxes) {
    named.local_begin[0] += all.shape[0];
    all.boxes.push_back(std::move(named));
  }
  all.shape[0] += one.shape[0];
}

std::string tensor_name(const std::string& where, const std::string& name) {
  return where + "." + name;
}

}  // namespace

Moe::Moe(const MoeConfig& config, const parallel::TensorRegion& region,
         const parallel::ExpertAxes& axes, DType dtype, Device device)
    : config_(config),
      region_(region),
      axes_(axes),
      experts_(axes.dispatch.experts(config.experts)),
      load_(device, DType::f64, {config.experts}, MemoryClass::workspace, "expert load"),
      losses_(device, DType::f64, {2}, MemoryClass::workspace, "router losses") {
  require(config.top_k >= 1 && config.top_k <= config.experts,
          "a token cannot use {} of {} experts", config.top_k, config.experts);
  require(config.capacity_factor == 0 || !axes.sequence_sum.divided(),
          "the capacity of experts needs whole sequences");
  const std::int64_t D = config.hidden, F = config.feed_forward;
  const Range units = region.part(F);
  const Initializer normal{Initializer::Kind::normal, config.deviation};
  const Initializer output{Initializer::Kind::normal, config.output_deviation};
  // Each rank of the tensor axis sees its part of the experts' outputs only.
  router_ = unsplit_inner_param(region, config.router_name + ".weight",
                                {config.experts, D}, normal);
  for (std::int64_t e = experts_.begin; e < experts_.end; ++e) {
    const std::string at = tensor_name(config.expert_name, std::to_string(e));
    const auto& names = config.expert_names;
    append_expert(feed_.up.weight,
                  up_param(config.activation, tensor_name(at, names.gate),
                           tensor_name(at, names.up), {F, D}, units, normal));
    append_expert(feed_.down.weight,
                  column_split_param(tensor_name(at, names.down) + ".weight", {D, F},
                                     units, output));
  }
  feed_.activation = shared_.activation = config.activation;
  for (ExpertLinear* layer : {&feed_.up, &feed_.down})
    layer->bind(axes_.dispatch, experts_.count());
  feed_.set_precision(config.products);
  shared_.set_precision(config.products);
  if (has_shared()) {
    const Shape whole = {config.shared_feed_forward, D};
    const Range mine = region.part(whole[0]);
    const auto& names = config.shared_names;
    shared_.up.weight =
        up_param(config.activation, tensor_name(config.shared_name, names.gate),
                 tensor_name(config.shared_name, names.up), whole, mine, normal);
    shared_.down.weight =
        column_split_param(tensor_name(config.shared_name, names.down) + ".weight",
                           {D, whole[0]}, mine, output);
  }
  if (config.choice_bias) {
    bias_ = Buffer(device, accumulator_of(dtype), {config.experts},
                   MemoryClass::workspace, "expert bias");
    const Param like = unsplit_param(
        region, config.router_name + ".e_score_correction_bias", {config.experts}, {});
    bias_state_ = {like.boxes.front(), bias_.view()};
  }
}

std::int64_t Moe::capacity(const Pass& pass) const {
  if (config_.capacity_factor <= 0 || !pass.microbatch.whole_sequences) return 0;
  const double even = static_cast<double>(pass.microbatch.sequence * config_.top_k) /
                      static_cast<double>(config_.experts);
  return static_cast<std::int64_t>(std::ceil(config_.capacity_factor * even));
}

void Moe::forward(Pass& pass, const TensorView& x_TD, const Residual& residual,
                  Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const TensorView partial_TD =
      pass.scratch.take(x_TD.dtype(), {pass.tokens(), config_.hidden}, "moe.partial");
  // 1. enter the region
  const Recompute& again = pass.recompute;
  saved.x_TD = region_.enter(stream, pass.kept_unless(again.norm), x_TD).wait();
  // 2. router: who goes where, with what weight
  route(pass, saved);
  // 3. shared expert, 4. experts: a partial sum
  if (has_shared()) {
    shared_.take(pass, x_TD.dtype(), pass.tokens(), saved.shared);
    shared_.forward(pass, saved.x_TD, saved.shared);
    shared_.down.forward(pass, saved.shared.a_NF, {}, partial_TD, saved.shared.down);
  }
  experts_forward(pass, partial_TD, saved);
  // 5. leave the region
  const TensorView sum_TD = region_.leave(stream, pass.scratch, partial_TD).wait();
  // 6. residual
  residual.join(pass, sum_TD, {});
  if (again.norm) saved.x_TD = {};
  feed_.forget(again, saved.hidden);
  shared_.forget(again, saved.shared);
}

TensorView Moe::backward(Pass& pass, const TensorView& dy_TD, Saved saved) {
  Stream& stream = pass.stream;
  const DType dtype = dy_TD.dtype();
  const TensorView dx_all_TD =
      pass.scratch.take(dtype, {pass.tokens(), config_.hidden}, "moe.dx");
  // 5. leave; beside its communication, 4., 3. what was not kept, once more
  auto dy_all = region_.leave_backward(stream, pass.kept(), dy_TD);
  feed_.again(pass, saved.rows_RD, saved.hidden, saved.route);
  if (has_shared()) shared_.again(pass, saved.x_TD, saved.shared);
  const TensorView dy_all_TD = dy_all.wait();
  // 4. experts: combine, feed-forward, dispatch
  const TensorView dweights_TK = pass.scratch.take(
      saved.weights_TK.dtype(), saved.weights_TK.shape(), "moe.dweights");
  const TensorView dout_RD = axes_.dispatch.combine_backward(
      stream, pass.kept(), pass.scratch, saved.route, dy_all_TD, saved.returned_ND,
      saved.weights_TK, dweights_TK);
  ExpertLinear::Gradient du;
  const TensorView drows_RD = experts_backward(pass, dout_RD, saved, du);
  axes_.dispatch.dispatch_backward(stream, pass.scratch, saved.route, drows_RD,
                                   dx_all_TD);
  // 3. shared expert
  Linear::Gradient dshared;
  if (has_shared()) {
    const TensorView da_TF =
        shared_.arena_of_da(pass).take(dtype, saved.shared.a_NF.shape(), "moe.shared_da");
    dshared = shared_.up.output_gradient(
        pass, shared_.backward(pass, dy_all_TD, saved.shared, da_TF));
    shared_.up.input_gradient(pass, dshared, dx_all_TD, kernels::Accumulate::yes);
  }
  // 2. router
  const TensorView dlogits_TE = router_backward(pass, dweights_TK, saved);
  kernels::gemm(stream, dx_all_TD, dlogits_TE, kernels::Transpose::no,
                in_type(pass, router_.value, dtype), kernels::Transpose::no,
                kernels::Accumulate::yes);
  // 1. enter: its communication overlaps with the weight gradients
  auto dx = region_.enter_backward(stream, pass.scratch, dx_all_TD);
  feed_.up.post_weight_gradient(pass, saved.route, du, saved.rows_RD, saved.hidden.up);
  if (has_shared())
    shared_.up.post_weight_gradient(pass, dshared, saved.x_TD, saved.shared.up);
  pass.weight_gradients.post(
      stream, router_, [this, dlogits_TE, x_TD = saved.x_TD](Stream& on) {
        linear_weight_gradient(on, dlogits_TE, x_TD, router_.gradient);
      });
  kernels::count_choices(stream, saved.choice_TK, load_.view());
  return dx.wait();
}

void Moe::route(Pass& pass, Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType accumulator = accumulator_of(saved.x_TD.dtype());
  const std::int64_t T = pass.tokens(), E = config_.experts, K = config_.top_k;
  // 1. scores
  saved.logits_TE = pass.saved.take(accumulator, {T, E}, "moe.logits");
  const TensorView scores_TE = pass.scratch.take(accumulator, {T, E}, "moe.scores");
  linear(stream, saved.x_TD, in_type(pass, router_.value, saved.x_TD.dtype()), {},
         saved.logits_TE);
  kernels::router_scores(stream, config_.router, saved.logits_TE, scores_TE);
  // 2. choice and weights
  saved.choice_TK = pass.saved.take(DType::i32, {T, K}, "moe.choice");
  saved.weights_TK = pass.saved.take(accumulator, {T, K}, "moe.weights");
  kernels::choose_experts(stream, scores_TE, bias_.view(), saved.choice_TK);
  kernels::router_weights(stream, {config_.normalise, config_.scaling}, scores_TE,
                          saved.choice_TK, saved.weights_TK);
  balance_sums(pass, scores_TE, saved);
  // 3. capacity
  TensorView kept_TK = saved.choice_TK;
  std::int64_t most = T;
  if (const std::int64_t limit = capacity(pass); limit > 0) {
    kept_TK = pass.scratch.take(DType::i32, {T, K}, "moe.kept");
    kernels::limit_choices(stream, saved.choice_TK, E, pass.microbatch.sequence, limit,
                           kept_TK);
    most = std::min(T, pass.microbatch.batch * limit);
  }
  // 4. who gets what
  saved.route = axes_.dispatch.route(stream, pass.saved, kept_TK, E, most);
}

// Steps as in route(). The gradient with respect to the logits, in the compute dtype, and
// the step's losses. Their gradients count once over the tensor axis, whose ranks all see
// the same scores. A sequence's balance loss is known to every rank that has a part of
// it.
TensorView Moe::router_backward(Pass& pass, const TensorView& dweights_TK,
                                const Saved& saved) {
  Stream& stream = pass.stream;
  const DType dtype = saved.x_TD.dtype(), accumulator = saved.logits_TE.dtype();
  const Shape& shape = saved.logits_TE.shape();
  const TensorView dlogits_TE = pass.kept().take(dtype, shape, "moe.dlogits");
  const ArenaScope scope(pass.scratch);
  const TensorView scores_TE = pass.scratch.take(accumulator, shape, "moe.scores");
  const TensorView dscores_TE = pass.scratch.take(accumulator, shape, "moe.dscores");
  kernels::router_scores(stream, config_.router, saved.logits_TE, scores_TE);
  // 2. weights, and the loss that balances the choice
  kernels::router_weights_backward(stream, {config_.normalise, config_.scaling},
                                   scores_TE, saved.choice_TK, dweights_TK, dscores_TE);
  const bool first = region_.counts_here();
  if (config_.aux_loss > 0) {
    const double factor = config_.aux_loss * pass.losses.aux_scale;
    kernels::add_balance_loss(stream, saved.sums_B2E, config_.top_k, whole_sequence(pass),
                              axes_.sequence_sum.share(factor),
                              losses_.view().rows(0, 1));
    if (first) {
      kernels::balance_loss_backward(stream, config_.router, scores_TE, saved.sums_B2E,
                                     config_.top_k, whole_sequence(pass),
                                     factor * pass.losses.loss_scale, dscores_TE);
    }
  }
  // 1. scores, and the loss of the logits
  kernels::router_scores_backward(stream, config_.router, scores_TE, dscores_TE,
                                  dscores_TE);
  if (config_.z_loss > 0) {
    const double factor = config_.z_loss * pass.losses.token_scale;
    const TensorView lse_T = pass.scratch.take(accumulator, {pass.tokens()}, "moe.lse");
    kernels::add_router_z_loss(stream, saved.logits_TE, lse_T, factor,
                               losses_.view().rows(1, 1));
    if (first) {
      kernels::router_z_loss_backward(stream, saved.logits_TE, lse_T,
                                      factor * pass.losses.loss_scale, dscores_TE);
    }
  }
  kernels::copy(stream, dscores_TE, dlogits_TE);
  return dlogits_TE;
}

void Moe::balance_sums(Pass& pass, const TensorView& scores_TE, Saved& saved) const {
  if (config_.aux_loss <= 0) return;
  Stream& stream = pass.stream;
  const ArenaScope scope(pass.scratch);
  saved.sums_B2E = pass.saved.take(
      scores_TE.dtype(), {pass.microbatch.batch, 2, config_.experts}, "moe.balance");
  // The loss counts the experts of largest score, without the bias.
  TensorView choice_TK = saved.choice_TK;
  if (config_.choice_bias) {
    choice_TK = pass.scratch.take(DType::i32, choice_TK.shape(), "moe.unbiased");
    kernels::choose_experts(stream, scores_TE, {}, choice_TK);
  }
  kernels::balance_sums(stream, config_.router, scores_TE, choice_TK, saved.sums_B2E);
  axes_.sequence_sum.sum(stream, saved.sums_B2E);
}

void Moe::experts_forward(Pass& pass, const TensorView& y_TD, Saved& saved) const {
  Stream& stream = pass.stream;
  const parallel::ExpertDispatch& dispatch = axes_.dispatch;
  const DType dtype = saved.x_TD.dtype();
  const std::int64_t R = saved.route.rows;
  // 1. rows to their experts
  saved.rows_RD =
      dispatch.dispatch(stream, pass.saved, pass.scratch, saved.route, saved.x_TD);
  // 2. feed-forward of each expert
  feed_.take(pass, dtype, R, saved.hidden);
  // On one rank these rows are already at their source rank, where they are kept.
  Arena& arena = dispatch.divided() ? pass.scratch : pass.saved;
  const TensorView out_RD = arena.take(dtype, {R, config_.hidden}, "moe.out");
  feed_.forward(pass, saved.rows_RD, saved.hidden, saved.route);
  feed_.down.forward(pass, saved.route, saved.hidden.a_NF, out_RD, saved.hidden.down);
  // 3. and back to their source ranks
  saved.returned_ND = dispatch.combine(stream, pass.saved, pass.scratch, saved.route,
                                       out_RD, saved.weights_TK, has_shared(), y_TD);
}

// Step 2. of experts_forward(); 3. and 1. are the dispatch's, in backward().
TensorView Moe::experts_backward(Pass& pass, const TensorView& dout_RD,
                                 const Saved& saved, ExpertLinear::Gradient& du) {
  const DType dtype = dout_RD.dtype();
  const TensorView da_RF =
      feed_.arena_of_da(pass).take(dtype, saved.hidden.a_NF.shape(), "moe.da");
  const TensorView du_RU =
      feed_.backward(pass, dout_RD, saved.hidden, da_RF, saved.route);
  const TensorView drows_RD =
      pass.scratch.take(dtype, saved.rows_RD.shape(), "moe.drows");
  du = feed_.up.output_gradient(pass, saved.route, du_RU);
  feed_.up.input_gradient(pass, saved.route, du, drows_RD);
  return drows_RD;
}

void Moe::clear_step() {
  Stream stream(load_.view().device());
  kernels::fill(stream, load_.view(), 0.0);
  kernels::fill(stream, losses_.view(), 0.0);
}

void Moe::update_bias() {
  if (!config_.choice_bias || load_.view().device().is_meta()) return;
  Stream stream(load_.view().device());
  std::vector<double> load(static_cast<std::size_t>(config_.experts));
  copy_bytes(stream, load_.view(),
             TensorView(load.data(), DType::f64, load_.view().shape()));
  double sum = 0;
  for (const double tokens : load) sum += tokens;
  // Compared without a division: all are whole numbers.
  const double E = static_cast<double>(load.size());
  visit_floating(bias_.view().dtype(), [&]<class T>(T) {
    std::vector<T> bias(load.size());
    const TensorView on_host(bias.data(), dtype_of<T>, bias_.view().shape());
    copy_bytes(stream, bias_.view(), on_host);
    for (std::size_t e = 0; e < load.size(); ++e) {
      const double sign = load[e] * E < sum ? 1.0 : load[e] * E > sum ? -1.0 : 0.0;
      using A = Accumulator<T>;
      bias[e] =
          T(static_cast<A>(bias[e]) + static_cast<A>(sign * config_.bias_update_rate));
    }
    copy_bytes(stream, on_host, bias_.view());
  });
}

void Moe::collect(std::vector<Param*>& params) {
  params.push_back(&router_);
  feed_.collect(params);
  if (has_shared()) shared_.collect(params);
}

void Moe::collect(std::vector<Fp8Operands*>& layers) {
  feed_.collect(layers);
  if (has_shared()) shared_.collect(layers);
}

void Moe::collect(std::vector<StateTensor*>& states) {
  if (config_.choice_bias) states.push_back(&bias_state_);
}

}  // namespace trireme::nn
