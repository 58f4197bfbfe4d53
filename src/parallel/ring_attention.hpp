// RingAttention: keys and values go round the ranks of the context axis.
// SPDX-License-Identifier: Apache-2.0
// Each rank holds a part of every sequence.
// Source: Liu et al., "Ring Attention with Blockwise Transformers for Near-Infinite
// Context", 2023; the zigzag order: Dubey et al., "The Llama 3 Herd of Models", 2024,
// section 3.3.2.
#pragma once

#include "comm/group.hpp"
#include "parallel/attention_core.hpp"
#include "parallel/context_order.hpp"

namespace trireme::parallel {

// shape.sequence is the rows L of a sequence on this rank; rows are [B, L], in the order
// of context_positions(). Exact: results are those of attention on whole sequences, but
// for the order of sums. At most two ranks' keys and values are in memory beside a rank's
// own, and in backward three ranks' gradients of them, in the accumulator dtype.
//
// Place: q, k, v, o and all gradients varying over the context axis.
// Async: sends and receives overlap with the computation of the block that is there.
// Cost: a rank sends (n - 1) blocks of keys and values in forward, and again in backward
// with n blocks of their gradients. Throws Error(internal) where the order is zigzag and
// L is odd. On a group of one rank the bits are those of LocalAttention.
class RingAttention final : public AttentionCore {
 public:
  RingAttention(comm::Group& context, ContextOrder order)
      : group_(context), order_(order), sequences_(context, order) {}

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
  comm::Group& group_;
  ContextOrder order_;
  SequenceExchange sequences_;
};

}  // namespace trireme::parallel
