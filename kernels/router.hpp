// The router of an MoE layer: scores, choice, weights, capacity, losses.
// SPDX-License-Identifier: Apache-2.0
// The losses balance the experts. Scores, weights and gradients are f32, or f64 where the
// model is. T tokens (sequence after sequence, B of them), E experts, K of a token.
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

enum class RouterScore : std::uint8_t { softmax, sigmoid };

// How the scores s of the chosen experts become weights:
//   w_k = scaling s_k / (normalise ? sum over the chosen of s + 1e-20 : 1).
struct RouterWeights {
  bool normalise = true;
  double scaling = 1.0;
};

// Experts in groups of equal size, of which a token uses some: those whose `counted`
// largest values have the largest sums, of equal ones the lower index first. At most 32
// groups. Source: DeepSeek-AI, "DeepSeek-V3 technical report", arXiv 2412.19437, section
// 2.1.2 (DeepSeek-V2 counts the largest value alone).
struct ExpertGroups {
  std::int64_t groups = 1, used = 1, counted = 2;
};
inline constexpr std::int64_t most_expert_groups = 32;

// scores_TE (written) = softmax over the experts, or sigmoid, of logits_TE.
void router_scores(Stream& stream, RouterScore kind, const TensorView& logits_TE,
                   const TensorView& scores_TE);
// dlogits_TE (written; may be dscores_TE).
void router_scores_backward(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                            const TensorView& dscores_TE, const TensorView& dlogits_TE);

// choice_TK (i32, written): the K experts of largest scores_TE + bias_E by falling value;
// of equal ones the lower index first. bias_E may be empty. It alters the choice alone:
// the weights are made from the scores.
// Source: DeepSeek-AI, "DeepSeek-V3 technical report", arXiv 2412.19437, eq. 16.
void choose_experts(Stream& stream, const TensorView& scores_TE, const TensorView& bias_E,
                    const TensorView& choice_TK);

// limited_TE (written) = scores_TE + bias_E (which may be empty) in the groups that a
// token uses, else -infinity: what choose_experts() then chooses from.
void limit_to_groups(Stream& stream, const ExpertGroups& groups,
                     const TensorView& scores_TE, const TensorView& bias_E,
                     const TensorView& limited_TE);

// weights_TK (written) of the chosen experts.
void router_weights(Stream& stream, const RouterWeights& rule,
                    const TensorView& scores_TE, const TensorView& choice_TK,
                    const TensorView& weights_TK);
// dscores_TE (written; zero where an expert was not chosen).
void router_weights_backward(Stream& stream, const RouterWeights& rule,
                             const TensorView& scores_TE, const TensorView& choice_TK,
                             const TensorView& dweights_TK, const TensorView& dscores_TE);

// kept_TK (i32, written): the choice, but -1 where the expert already has `capacity`
// tokens of the same sequence, in the order of positions. sequence divides T.
void limit_choices(Stream& stream, const TensorView& choice_TK, std::int64_t experts,
                   std::int64_t sequence, std::int64_t capacity,
                   const TensorView& kept_TK);

// counts_E (f64) += tokens that chose each expert. Entries of -1 count nowhere.
void count_choices(Stream& stream, const TensorView& choice_TK,
                   const TensorView& counts_E);

// What the balance loss of a sequence is made of, for B sequences whose T / B tokens of
// this rank are given: sums_B2E[b, 0, e] = tokens that chose e, and sums_B2E[b, 1, e] =
// sum over tokens of s_e / sum_j s_j; both written.
void balance_sums(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                  const TensorView& choice_TK, const TensorView& sums_B2E);
// Sum over sequences of sum_e f_e P_e, with f_e = E / (K S) sums[0, e] and P_e = sums[1,
// e] / S, where sums are those of all S = `sequence` tokens: 1 per sequence when the load
// is even. On meta: 0. On a GPU the call waits for the number.
// Source: DeepSeek-AI, arXiv 2412.19437, eq. 17-20 (without the factor alpha).
double balance_loss(Stream& stream, const TensorView& sums_B2E, std::int64_t top_k,
                    std::int64_t sequence);
// sum_1 (f64 [1], on the stream's device) += factor * balance_loss, without waiting.
void add_balance_loss(Stream& stream, const TensorView& sums_B2E, std::int64_t top_k,
                      std::int64_t sequence, double factor, const TensorView& sum_1);
// dscores_TE += factor * d balance_loss / d scores, through P only: f is a count.
void balance_loss_backward(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                           const TensorView& sums_B2E, std::int64_t top_k,
                           std::int64_t sequence, double factor,
                           const TensorView& dscores_TE);

// Sum over tokens of lse^2, lse_T (written) = log sum_e exp(logits_TE). On meta: 0.
// On a GPU the call waits for the number.
// Source: Zoph et al., "ST-MoE", 2022, eq. 5 (a mean there).
double router_z_loss(Stream& stream, const TensorView& logits_TE,
                     const TensorView& lse_T);
// sum_1 (f64 [1], on the stream's device) += factor * router_z_loss, without waiting;
// lse_T is written.
void add_router_z_loss(Stream& stream, const TensorView& logits_TE,
                       const TensorView& lse_T, double factor, const TensorView& sum_1);
// dlogits_TE += factor * d router_z_loss / d logits.
void router_z_loss_backward(Stream& stream, const TensorView& logits_TE,
                            const TensorView& lse_T, double factor,
                            const TensorView& dlogits_TE);

}  // namespace trireme::kernels
