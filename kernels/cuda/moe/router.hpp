// CUDA implementation of kernels/router.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/router.hpp"

namespace trireme::kernels::cuda {

void router_scores(Stream& stream, RouterScore kind, const TensorView& logits_TE,
                   const TensorView& scores_TE);
void router_scores_backward(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                            const TensorView& dscores_TE, const TensorView& dlogits_TE);
void choose_experts(Stream& stream, const TensorView& scores_TE, const TensorView& bias_E,
                    const TensorView& choice_TK);
void router_weights(Stream& stream, const RouterWeights& rule,
                    const TensorView& scores_TE, const TensorView& choice_TK,
                    const TensorView& weights_TK);
void router_weights_backward(Stream& stream, const RouterWeights& rule,
                             const TensorView& scores_TE, const TensorView& choice_TK,
                             const TensorView& dweights_TK, const TensorView& dscores_TE);
void limit_choices(Stream& stream, const TensorView& choice_TK, std::int64_t experts,
                   std::int64_t sequence, std::int64_t capacity,
                   const TensorView& kept_TK);
void count_choices(Stream& stream, const TensorView& choice_TK,
                   const TensorView& counts_E);
// Bytes of workspace that it takes.
std::int64_t balance_sums_workspace(const TensorView& scores_TE,
                                    const TensorView& sums_B2E);
void balance_sums(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                  const TensorView& choice_TK, const TensorView& sums_B2E);
double balance_loss(Stream& stream, const TensorView& sums_B2E, std::int64_t top_k,
                    std::int64_t sequence);
void add_balance_loss(Stream& stream, const TensorView& sums_B2E, std::int64_t top_k,
                      std::int64_t sequence, double factor, const TensorView& sum_1);
void balance_loss_backward(Stream& stream, RouterScore kind, const TensorView& scores_TE,
                           const TensorView& sums_B2E, std::int64_t top_k,
                           std::int64_t sequence, double factor,
                           const TensorView& dscores_TE);
double router_z_loss(Stream& stream, const TensorView& logits_TE,
                     const TensorView& lse_T);
void add_router_z_loss(Stream& stream, const TensorView& logits_TE,
                       const TensorView& lse_T, double factor, const TensorView& sum_1);
void router_z_loss_backward(Stream& stream, const TensorView& logits_TE,
                            const TensorView& lse_T, double factor,
                            const TensorView& dlogits_TE);

}  // namespace trireme::kernels::cuda
