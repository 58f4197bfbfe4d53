// Host implementation of kernels/router.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/router.hpp"

namespace trireme::kernels::host {

void router_scores(RouterScore kind, const TensorView& logits_TE,
                   const TensorView& scores_TE);
void router_scores_backward(RouterScore kind, const TensorView& scores_TE,
                            const TensorView& dscores_TE, const TensorView& dlogits_TE);
void choose_experts(const TensorView& scores_TE, const TensorView& bias_E,
                    const TensorView& choice_TK);
void router_weights(const RouterWeights& rule, const TensorView& scores_TE,
                    const TensorView& choice_TK, const TensorView& weights_TK);
void router_weights_backward(const RouterWeights& rule, const TensorView& scores_TE,
                             const TensorView& choice_TK, const TensorView& dweights_TK,
                             const TensorView& dscores_TE);
void limit_choices(const TensorView& choice_TK, std::int64_t experts,
                   std::int64_t sequence, std::int64_t capacity,
                   const TensorView& kept_TK);
void count_choices(const TensorView& choice_TK, const TensorView& counts_E);
void balance_sums(RouterScore kind, const TensorView& scores_TE,
                  const TensorView& choice_TK, const TensorView& sums_B2E);
double balance_loss(const TensorView& sums_B2E, std::int64_t top_k,
                    std::int64_t sequence);
void balance_loss_backward(RouterScore kind, const TensorView& scores_TE,
                           const TensorView& sums_B2E, std::int64_t top_k,
                           std::int64_t sequence, double factor,
                           const TensorView& dscores_TE);
double router_z_loss(const TensorView& logits_TE, const TensorView& lse_T);
void router_z_loss_backward(const TensorView& logits_TE, const TensorView& lse_T,
                            double factor, const TensorView& dlogits_TE);

}  // namespace trireme::kernels::host
