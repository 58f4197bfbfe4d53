// UlyssesAttention: heads are exchanged for positions on the context axis.
// SPDX-License-Identifier: Apache-2.0
// Its ranks hold parts of every sequence outside, and heads of whole sequences inside.
// Source: Jacobs et al., "DeepSpeed Ulysses", 2023, section 3.
#pragma once

#include <vector>

#include "comm/group.hpp"
#include "parallel/attention_core.hpp"

namespace trireme::parallel {

// shape.sequence is the rows L of a sequence on this rank; rows are [B, L], and rank r
// holds positions [r L, (r + 1) L) (ContextOrder::contiguous). Rank p computes query
// heads [p H / n, (p + 1) H / n) with all key/value heads that these use: a head that
// several ranks use is sent to each, and its gradients are summed in rank order, in the
// accumulator dtype. All else has the bits of LocalAttention on the whole sequences.
//
// Place: q, k, v, o and all gradients varying over the context axis.
// Cost: a rank sends about (n - 1) / n of q, k, v and o in forward, and of q, k, v, o, do
// and the gradients in backward. Throws Error(internal) unless the query heads of a rank
// are a multiple of the ranks.
class UlyssesAttention final : public AttentionCore {
 public:
  explicit UlyssesAttention(comm::Group& context)
      : group_(context), sequences_(context, ContextOrder::contiguous) {}

  SequenceExchange* sequences() override {
    return group_.size() == 1 ? nullptr : &sequences_;
  }
  void forward(Stream& stream, Arena& scratch, const kernels::AttentionShape& shape,
               const TensorView& q_THK, const TensorView& k_TGK, const TensorView& v_TGK,
               const TensorView& o_THK, const TensorView& lse_TH) override;
  void backward(Stream& stream, Arena& scratch, const kernels::AttentionShape& shape,
                const TensorView& do_THK, const TensorView& q_THK,
                const TensorView& k_TGK, const TensorView& v_TGK, const TensorView& o_THK,
                const TensorView& lse_TH, const TensorView& dq_THK,
                const TensorView& dk_TGK, const TensorView& dv_TGK) override;

 private:
  class Exchange;

  comm::Group& group_;
  SequenceExchange sequences_;
  std::vector<comm::Handle> in_flight_;
};

}  // namespace trireme::parallel
