// AttentionCore: how the rows of a sequence meet, wherever they are.
// SPDX-License-Identifier: Apache-2.0
// Modules are handed one, so that they know neither context parallelism nor caches.
#pragma once

#include <vector>

#include "kernels/attention.hpp"
#include "parallel/sequence_exchange.hpp"

namespace trireme::parallel {

// What a layer of the gated delta rule goes on from, and leaves for the next positions.
struct RecurrentState {
  Range rows{};          // of the microbatch: one text's
  TensorView tail_WC{};  // the last rows before the convolution
  TensorView state{};    // kernels::DeltaShape::state()
};

// Arguments as in kernels/attention.hpp. shape.sequence is the rows of a sequence on this
// rank; shape.first_T, where given, are positions in the whole sequence.
class AttentionCore {
 public:
  virtual ~AttentionCore() = default;
  // Whether keys and values of earlier positions are kept, as in generation.
  virtual bool is_cached() const { return false; }
  // Of the layer whose turn it is, where is_cached(): a state for each text of the
  // microbatch, of `rows` rows in all.
  virtual std::vector<RecurrentState> recurrent_states(const Stream& /*stream*/,
                                                       std::int64_t /*rows*/) {
    return {};
  }
  // What layers that need whole sequences get them by; null: every rank holds them.
  virtual SequenceExchange* sequences() { return nullptr; }
  virtual void forward(Stream& stream, Arena& scratch,
                       const kernels::AttentionShape& shape, const TensorView& q_THK,
                       const TensorView& k_TGK, const TensorView& v_TGK,
                       const TensorView& o_THK, const TensorView& lse_TH) = 0;
  virtual void backward(Stream& stream, Arena& scratch,
                        const kernels::AttentionShape& shape, const TensorView& do_THK,
                        const TensorView& q_THK, const TensorView& k_TGK,
                        const TensorView& v_TGK, const TensorView& o_THK,
                        const TensorView& lse_TH, const TensorView& dq_THK,
                        const TensorView& dk_TGK, const TensorView& dv_TGK) = 0;
};

// Every rank holds whole sequences.
class LocalAttention final : public AttentionCore {
 public:
  void forward(Stream& stream, Arena& scratch, const kernels::AttentionShape& shape,
               const TensorView& q_THK, const TensorView& k_TGK, const TensorView& v_TGK,
               const TensorView& o_THK, const TensorView& lse_TH) override {
    kernels::attention(stream, scratch, shape, q_THK, k_TGK, v_TGK, o_THK, lse_TH);
  }
  void backward(Stream& stream, Arena& scratch, const kernels::AttentionShape& shape,
                const TensorView& do_THK, const TensorView& q_THK,
                const TensorView& k_TGK, const TensorView& v_TGK, const TensorView& o_THK,
                const TensorView& lse_TH, const TensorView& dq_THK,
                const TensorView& dk_TGK, const TensorView& dv_TGK) override {
    kernels::attention_backward(stream, scratch, shape, do_THK, q_THK, k_TGK, v_TGK,
                                o_THK, lse_TH, dq_THK, dk_TGK, dv_TGK);
  }
};

}  // namespace trireme::parallel
