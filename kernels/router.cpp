// The router: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/router.hpp"

#include "kernels/checks.hpp"
#include "kernels/cuda/moe/demand.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/moe.hpp"
#include "kernels/runtime/plan_working_memory.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(router_scores);
TRIREME_BACK_ENDS(router_scores_backward);
TRIREME_BACK_ENDS(choose_experts);
TRIREME_BACK_ENDS(limit_to_groups);
TRIREME_BACK_ENDS(router_weights);
TRIREME_BACK_ENDS(router_weights_backward);
TRIREME_BACK_ENDS(limit_choices);
TRIREME_BACK_ENDS(count_choices);
TRIREME_BACK_ENDS(balance_sums);
TRIREME_BACK_ENDS(balance_loss);
TRIREME_BACK_ENDS(add_balance_loss);
TRIREME_BACK_ENDS(balance_loss_backward);
TRIREME_BACK_ENDS(router_z_loss);
TRIREME_BACK_ENDS(add_router_z_loss);
TRIREME_BACK_ENDS(router_z_loss_backward);

namespace {

ProfileFamily family("router");

// A matrix of scores, kept in an accumulator type.
void check_scores(const Checks& check, Argument argument) {
  check.matrix(argument);
  require(argument.view.dtype() == accumulator_of(argument.view.dtype()),
          "the router works in fp32 or fp64, not in {}", name_of(argument.view.dtype()));
}

// i32 [T, K] with K experts of E.
void check_choice(const Checks& check, Argument argument, std::int64_t tokens,
                  std::int64_t experts) {
  const std::int64_t K = argument.view.shape().rank() == 2 ? argument.view.dim(1) : 0;
  check.tensor(argument, DType::i32, {tokens, K});
  check.dense(argument);
  require(K >= 1 && K <= experts, "a token cannot choose {} of {} experts", K, experts);
}

void check_sums(const Checks& check, const TensorView& scores_TE,
                const TensorView& sums_B2E) {
  const std::int64_t B = sums_B2E.shape().rank() == 3 ? sums_B2E.dim(0) : 0;
  check.tensor({"sums", sums_B2E}, scores_TE.dtype(), {B, 2, scores_TE.dim(1)});
  check.dense({"sums", sums_B2E});
  require(B >= 1 && scores_TE.dim(0) % B == 0, "{} tokens are not {} equal sequences",
          scores_TE.dim(0), B);
}

// Sums alone, of which the loss is made.
void check_balance(const Checks& check, const TensorView& sums_B2E) {
  check.floating({"sums", sums_B2E});
  require(sums_B2E.dtype() == accumulator_of(sums_B2E.dtype()),
          "the router works in fp32 or fp64, not in {}", name_of(sums_B2E.dtype()));
  require(sums_B2E.shape().rank() == 3 && sums_B2E.dim(1) == 2,
          "the sums of the balance loss have shape {}, not [sequences, 2, experts]",
          sums_B2E.shape());
  check.dense({"sums", sums_B2E});
}

void check_z_loss(const Checks& check, const TensorView& logits_TE,
                  const TensorView& lse_T) {
  check_scores(check, {"logits", logits_TE});
  check.tensor({"lse", lse_T}, logits_TE.dtype(), {logits_TE.dim(0)});
}

}  // namespace

void router_scores(Stream& stream, RouterScore kind, const TensorView& logits_TE,
                   const TensorView& scores_TE) {
  const Checks check("router_scores", stream);
  check_scores(check, {"logits", logits_TE});
  check.tensor({"scores", scores_TE}, logits_TE.dtype(), logits_TE.shape());
  run_kernel<host::router_scores, cuda::router_scores>(family, stream, kind, logits_TE,
                                                       scores_TE);
}

void router_scores_backward(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                            const TensorView& dscores_TE, const TensorView& dlogits_TE) {
  const Checks check("router_scores_backward", stream);
  check_scores(check, {"scores", scores_TE});
  check.tensor({"dscores", dscores_TE}, scores_TE.dtype(), scores_TE.shape());
  check.tensor({"dlogits", dlogits_TE}, scores_TE.dtype(), scores_TE.shape());
  run_kernel<host::router_scores_backward, cuda::router_scores_backward>(
      family, stream, kind, scores_TE, dscores_TE, dlogits_TE);
}

void choose_experts(Stream& stream, const TensorView& scores_TE, const TensorView& bias_E,
                    const TensorView& choice_TK) {
  const Checks check("choose_experts", stream);
  check_scores(check, {"scores", scores_TE});
  check_choice(check, {"choice", choice_TK}, scores_TE.dim(0), scores_TE.dim(1));
  if (!bias_E.empty())
    check.tensor({"bias", bias_E}, scores_TE.dtype(), {scores_TE.dim(1)});
  run_kernel<host::choose_experts, cuda::choose_experts>(family, stream, scores_TE,
                                                         bias_E, choice_TK);
}

void limit_to_groups(Stream& stream, const ExpertGroups& groups,
                     const TensorView& scores_TE, const TensorView& bias_E,
                     const TensorView& limited_TE) {
  const Checks check("limit_to_groups", stream);
  check_scores(check, {"scores", scores_TE});
  check.tensor({"limited", limited_TE}, scores_TE.dtype(), scores_TE.shape());
  if (!bias_E.empty())
    check.tensor({"bias", bias_E}, scores_TE.dtype(), {scores_TE.dim(1)});
  require(groups.groups >= 1 && groups.groups <= most_expert_groups &&
              scores_TE.dim(1) % groups.groups == 0 && groups.used >= 1 &&
              groups.used <= groups.groups && groups.counted >= 1,
          "{} of {} groups cannot be made of {} experts", groups.used, groups.groups,
          scores_TE.dim(1));
  run_kernel<host::limit_to_groups, cuda::limit_to_groups>(family, stream, groups,
                                                           scores_TE, bias_E, limited_TE);
}

void router_weights(Stream& stream, const RouterWeights& rule,
                    const TensorView& scores_TE, const TensorView& choice_TK,
                    const TensorView& weights_TK) {
  const Checks check("router_weights", stream);
  check_scores(check, {"scores", scores_TE});
  check_choice(check, {"choice", choice_TK}, scores_TE.dim(0), scores_TE.dim(1));
  check.tensor({"weights", weights_TK}, scores_TE.dtype(), choice_TK.shape());
  run_kernel<host::router_weights, cuda::router_weights>(family, stream, rule, scores_TE,
                                                         choice_TK, weights_TK);
}

void router_weights_backward(Stream& stream, const RouterWeights& rule,
                             const TensorView& scores_TE, const TensorView& choice_TK,
                             const TensorView& dweights_TK,
                             const TensorView& dscores_TE) {
  const Checks check("router_weights_backward", stream);
  check_scores(check, {"scores", scores_TE});
  check_choice(check, {"choice", choice_TK}, scores_TE.dim(0), scores_TE.dim(1));
  check.tensor({"dweights", dweights_TK}, scores_TE.dtype(), choice_TK.shape());
  check.tensor({"dscores", dscores_TE}, scores_TE.dtype(), scores_TE.shape());
  run_kernel<host::router_weights_backward, cuda::router_weights_backward>(
      family, stream, rule, scores_TE, choice_TK, dweights_TK, dscores_TE);
}

void limit_choices(Stream& stream, const TensorView& choice_TK, std::int64_t experts,
                   std::int64_t sequence, std::int64_t capacity,
                   const TensorView& kept_TK) {
  const Checks check("limit_choices", stream);
  check_choice(check, {"choice", choice_TK}, choice_TK.dim(0), experts);
  check_choice(check, {"kept", kept_TK}, choice_TK.dim(0), experts);
  check.tensor({"kept", kept_TK}, DType::i32, choice_TK.shape());
  require(sequence >= 1 && choice_TK.dim(0) % sequence == 0 && capacity >= 0,
          "limit_choices: {} tokens in sequences of {}, capacity {}", choice_TK.dim(0),
          sequence, capacity);
  run_kernel<host::limit_choices, cuda::limit_choices>(family, stream, choice_TK, experts,
                                                       sequence, capacity, kept_TK);
}

void count_choices(Stream& stream, const TensorView& choice_TK,
                   const TensorView& counts_E) {
  const Checks check("count_choices", stream);
  check.tensor({"counts", counts_E}, DType::f64, {counts_E.elements()});
  check_choice(check, {"choice", choice_TK}, choice_TK.dim(0), counts_E.elements());
  plan_working_memory(stream, [&] {
    return cuda::count_choices_workspace(choice_TK.elements(), counts_E.dim(0));
  });
  run_kernel<host::count_choices, cuda::count_choices>(family, stream, choice_TK,
                                                       counts_E);
}

void balance_sums(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                  const TensorView& choice_TK, const TensorView& sums_B2E) {
  const Checks check("balance_sums", stream);
  check_scores(check, {"scores", scores_TE});
  check_choice(check, {"choice", choice_TK}, scores_TE.dim(0), scores_TE.dim(1));
  check_sums(check, scores_TE, sums_B2E);
  plan_working_memory(stream,
                      [&] { return cuda::balance_sums_workspace(scores_TE, sums_B2E); });
  run_kernel<host::balance_sums, cuda::balance_sums>(family, stream, kind, scores_TE,
                                                     choice_TK, sums_B2E);
}

double balance_loss(Stream& stream, const TensorView& sums_B2E, std::int64_t top_k,
                    std::int64_t sequence) {
  check_balance(Checks("balance_loss", stream), sums_B2E);
  return run_kernel<host::balance_loss, cuda::balance_loss>(family, stream, sums_B2E,
                                                            top_k, sequence);
}

void add_balance_loss(Stream& stream, const TensorView& sums_B2E, std::int64_t top_k,
                      std::int64_t sequence, double factor, const TensorView& sum_1) {
  const Checks check("add_balance_loss", stream);
  check_balance(check, sums_B2E);
  check.tensor({"sum", sum_1}, DType::f64, {1});
  run_kernel<host::add_balance_loss, cuda::add_balance_loss>(
      family, stream, sums_B2E, top_k, sequence, factor, sum_1);
}

void balance_loss_backward(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                           const TensorView& sums_B2E, std::int64_t top_k,
                           std::int64_t sequence, double factor,
                           const TensorView& dscores_TE) {
  const Checks check("balance_loss_backward", stream);
  check_scores(check, {"scores", scores_TE});
  check_sums(check, scores_TE, sums_B2E);
  check.tensor({"dscores", dscores_TE}, scores_TE.dtype(), scores_TE.shape());
  run_kernel<host::balance_loss_backward, cuda::balance_loss_backward>(
      family, stream, kind, scores_TE, sums_B2E, top_k, sequence, factor, dscores_TE);
}

double router_z_loss(Stream& stream, const TensorView& logits_TE,
                     const TensorView& lse_T) {
  check_z_loss(Checks("router_z_loss", stream), logits_TE, lse_T);
  return run_kernel<host::router_z_loss, cuda::router_z_loss>(family, stream, logits_TE,
                                                              lse_T);
}

void add_router_z_loss(Stream& stream, const TensorView& logits_TE,
                       const TensorView& lse_T, double factor, const TensorView& sum_1) {
  const Checks check("add_router_z_loss", stream);
  check_z_loss(check, logits_TE, lse_T);
  check.tensor({"sum", sum_1}, DType::f64, {1});
  run_kernel<host::add_router_z_loss, cuda::add_router_z_loss>(family, stream, logits_TE,
                                                               lse_T, factor, sum_1);
}

void router_z_loss_backward(Stream& stream, const TensorView& logits_TE,
                            const TensorView& lse_T, double factor,
                            const TensorView& dlogits_TE) {
  const Checks check("router_z_loss_backward", stream);
  check_z_loss(check, logits_TE, lse_T);
  check.tensor({"dlogits", dlogits_TE}, logits_TE.dtype(), logits_TE.shape());
  run_kernel<host::router_z_loss_backward, cuda::router_z_loss_backward>(
      family, stream, logits_TE, lse_T, factor, dlogits_TE);
}

}  // namespace trireme::kernels
