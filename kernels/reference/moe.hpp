// An MoE layer in double, token by token, as the formulas read.
// SPDX-License-Identifier: Apache-2.0
// It is the oracle of the router, of the rows sorted by expert and of the whole layer.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/router.hpp"

namespace trireme::kernels::reference {

// Matrices are row-major; weights are [out, in]. There are gates where the activation is
// gated.
struct FeedForward {
  std::vector<double> gate_FD, up_FD, down_DF;
  std::vector<double> gate_F{}, up_F{}, down_D{};  // biases; empty: none
};

struct MoeLayer {
  std::int64_t tokens = 0, sequence = 0, hidden = 0, top_k = 0;  // T, S, D, K
  std::int64_t capacity = 0;  // of an expert, for one sequence; 0: none
  RouterScore score = RouterScore::softmax;
  RouterWeights weights;
  std::vector<double> router_ED, bias_E;  // bias of the choice; empty: none
  std::vector<double> logit_bias_E{};     // empty: none
  ExpertGroups groups{};
  Activation activation = Activation::swiglu;  // of all experts
  std::vector<FeedForward> experts;
  FeedForward shared;                   // empty: none
  std::vector<double> shared_gate_D{};  // the shared one times sigmoid of this with x

  std::int64_t expert_count() const { return static_cast<std::int64_t>(experts.size()); }
};

struct MoeResult {
  std::vector<double> y_TD, logits_TE, scores_TE, weights_TK;  // weight 0: dropped
  std::vector<std::int32_t> choice_TK;
  std::vector<double> load_E;  // tokens that chose each expert
  double balance = 0, z = 0;   // sums over sequences and tokens, without factors
};

// y = sum over the chosen experts of w_e expert_e(x) + [gate] shared(x).
MoeResult moe(const MoeLayer& layer, const std::vector<double>& x_TD);

// `values`, but -infinity for experts outside the groups that a token uses.
std::vector<double> limited_to_groups(const ExpertGroups& groups,
                                      const std::vector<double>& values);

// The K largest of values, falling; of equal ones the lower index first.
std::vector<std::int32_t> largest(const std::vector<double>& values, std::int64_t K);

}  // namespace trireme::kernels::reference
