// Moe: the router, forward and backward, with the losses that balance it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/elementwise.hpp"
#include "nn/moe.hpp"

namespace trireme::nn {

std::int64_t Moe::capacity(const Pass& pass) const {
  if (config_.capacity_factor <= 0 || !pass.microbatch.whole_sequences) return 0;
  const double even = static_cast<double>(pass.microbatch.sequence * config_.top_k) /
                      static_cast<double>(config_.experts);
  return static_cast<std::int64_t>(std::ceil(config_.capacity_factor * even));
}

void Moe::choose(Pass& pass, const TensorView& scores_TE, const TensorView& bias_E,
                 const TensorView& choice_TK) const {
  if (config_.groups.used == config_.groups.groups) {
    kernels::choose_experts(pass.stream, scores_TE, bias_E, choice_TK);
    return;
  }
  const ArenaScope scope(pass.scratch);
  const TensorView limited_TE =
      pass.scratch.take(scores_TE.dtype(), scores_TE.shape(), "moe.limited");
  kernels::limit_to_groups(pass.stream, config_.groups, scores_TE, bias_E, limited_TE);
  kernels::choose_experts(pass.stream, limited_TE, {}, choice_TK);
}

void Moe::route(Pass& pass, Saved& saved) const {
  const ArenaScope scope(pass.scratch);
  Stream& stream = pass.stream;
  const DType accumulator = accumulator_of(saved.x_TD.dtype());
  const std::int64_t T = pass.tokens(), E = config_.experts, K = config_.top_k;
  // 1. scores
  saved.logits_TE = pass.saved.take(accumulator, {T, E}, "moe.logits");
  const TensorView scores_TE = pass.scratch.take(accumulator, {T, E}, "moe.scores");
  linear(stream, saved.x_TD, in_type(pass, router_.value, saved.x_TD.dtype()),
         in_type(pass, router_bias_.value, saved.x_TD.dtype()), saved.logits_TE);
  kernels::router_scores(stream, config_.router, saved.logits_TE, scores_TE);
  // 2. choice and weights
  saved.choice_TK = pass.saved.take(DType::i32, {T, K}, "moe.choice");
  saved.weights_TK = pass.saved.take(accumulator, {T, K}, "moe.weights");
  choose(pass, scores_TE, bias_.view(), saved.choice_TK);
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
    choose(pass, scores_TE, {}, choice_TK);
  }
  kernels::balance_sums(stream, config_.router, scores_TE, choice_TK, saved.sums_B2E);
  axes_.sequence_sum.sum(stream, saved.sums_B2E);
}

}  // namespace trireme::nn
