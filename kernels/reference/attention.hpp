// Attention in plain double loops: the oracle of every other implementation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.hpp"

namespace trireme::kernels::reference {

struct AttentionResult {
  std::vector<double> o_THK;
  std::vector<double> lse_TH;
};

// The keys [begin, end) of its sequence that a query sees: visible_T[b * S + i] of query
// i of sequence b. With none, o is 0 and lse is minus infinity.
std::vector<Range> causal_keys(const AttentionShape& shape, std::int64_t past = 0);

// Forward; all operands dense; keys and values [B, any number, G, K]. Cost: one row of
// scores is held at a time.
AttentionResult attention(const AttentionShape& shape, std::span<const Range> visible_T,
                          std::span<const double> q_THK, std::span<const double> k_TGK,
                          std::span<const double> v_TGK);

struct AttentionGradients {
  std::vector<double> dq_THK, dk_TGK, dv_TGK;
};

// Gradients of <do, o>, from the derivative of softmax itself: neither o nor lse of an
// earlier forward is used.
AttentionGradients attention_backward(const AttentionShape& shape,
                                      std::span<const Range> visible_T,
                                      std::span<const double> do_THK,
                                      std::span<const double> q_THK,
                                      std::span<const double> k_TGK,
                                      std::span<const double> v_TGK);

}  // namespace trireme::kernels::reference
