// Attention: projections, rotary positions and the attention core, split by heads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "nn/attention_weights.hpp"
#include "nn/linear.hpp"
#include "nn/residual.hpp"
#include "nn/rotary_table.hpp"
#include "nn/wide_norm.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

// Query heads are split over the tensor axis. A rank holds every key/value head that its
// query heads use: heads that two ranks share are replicated, and their gradients summed.
class Attention {
 public:
  // A tensor that is computed again (Pass::recompute) is empty.
  struct Saved {
    TensorView x_TD;  // input, outside the region
    // After norms and rotation, with gates behind; E = (H + 2 G) K on this rank, and H K
    // with gates.
    TensorView qkv_TE;
    Norm::Saved q_norm, k_norm;  // with the heads before their norms, a row each
    WideNorm::Saved q_wide, k_wide;
    TensorView o_TE;  // [T, H K], before gates and the output projection
    TensorView lse_TH;
    Linear::Saved qkv, output;
  };

  // rotary: its tables outlive this; empty if not rotary.
  Attention(const AttentionConfig& config, const parallel::TensorRegion& region,
            const RotaryTable& rotary);

  // attention(x_TD) joins the residual stream, all outside the region. A view of x_TD is
  // kept; where entering the region gathers rows, backward gathers them again.
  void forward(Pass& pass, const TensorView& x_TD, const Residual& residual,
               Saved& saved) const;
  // dx from dy, both outside; dx is taken from pass.scratch. dy lives in pass.kept() and
  // is left as it is. saved.x_TD is there, kept or made again by the caller.
  TensorView backward(Pass& pass, const TensorView& dy_TD, Saved saved);

  void collect(std::vector<Param*>& params);
  void collect(std::vector<Fp8Operands*>& layers);
  void attach(const AdapterConfig& adapters);

 private:
  struct Columns;  // of q, k, v and gates in a fused buffer
  Columns columns(const TensorView& fused_TE) const;
  // With the first positions of windows, if any, in pass.scratch.
  kernels::AttentionShape shape(Pass& pass) const;
  // Turns q and k, or their gradients back.
  void rotate(Pass& pass, const TensorView& qkv_TE, Direction direction) const;
  // qkv -> o, lse, which are taken from `arena`.
  void attend(Pass& pass, Arena& arena, Saved& saved) const;
  // The norms of heads, in place in the columns of q and k.
  void norm_heads(Pass& pass, Saved& saved) const;
  void norm_heads_backward(Pass& pass, const TensorView& dqkv_TE, const Saved& saved);
  // o sigma(gates), in `arena`, or o where there are none.
  TensorView gate(Pass& pass, Arena& arena, const Saved& saved) const;
  // From the gradient of that to that of o, in place, and of the gates.
  void gate_backward(Pass& pass, const TensorView& do_TE, const Saved& saved,
                     const TensorView& dqkv_TE) const;
  // The gradients of the sinks, from those of o.
  void sinks_backward(Pass& pass, const TensorView& do_TE, const Saved& saved);
  // The parts of dk and dv that ranks with one key/value head have, summed at its owner
  // and 0 at the others: what is quantized is then the same on any mesh.
  void sum_shared_heads(Pass& pass, const TensorView& dqkv_TE) const;

  AttentionConfig config_;
  const parallel::TensorRegion& region_;
  RotaryTable rotary_;
  std::int64_t head_width_;            // K
  AttentionHeads heads_;               // of this rank
  std::vector<std::int32_t> kv_head_;  // local key/value head of each local query head
  Linear qkv_, output_;
  std::optional<Norm> q_norm_, k_norm_;      // of each head, or ...
  std::optional<WideNorm> q_wide_, k_wide_;  // ... of all at once
  Param qkv_bias_, output_bias_, sinks_;
};

}  // namespace trireme::nn
