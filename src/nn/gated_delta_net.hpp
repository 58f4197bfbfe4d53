// GatedDeltaNet: linear attention by the gated delta rule, in place of attention.
// SPDX-License-Identifier: Apache-2.0
// Source: Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024, section 3.4; with
// the gates of Qwen3-Next (Qwen Team, 2025). With H key heads of width K and G value
// heads of width V, each key head serving G / H of them:
//   [q, k, v] = silu(conv(x Wqkv)), z = x Wz, g and beta from a = x Wa and b = x Wb
//   o = gated delta rule of q, k, v, g and beta (kernels/delta_rule.hpp)
//   y = (norm(o) silu(z)) Wo, the norm of each value head
// Legend: T tokens, C = 2 H K + G V channels of this rank, W taps, E = C + G V + 2 G.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/causal_conv.hpp"
#include "kernels/delta_rule.hpp"
#include "nn/linear.hpp"
#include "nn/norm.hpp"
#include "nn/residual.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

struct GatedDeltaNetConfig {
  std::int64_t hidden = 0;                      // D
  std::int64_t key_heads = 0, value_heads = 0;  // of all ranks
  std::int64_t key_width = 0, value_width = 0;
  std::int64_t taps = 4;  // W
  double norm_eps = 1e-6;
  double deviation = 0.02, output_deviation = 0.02;  // of the initial weights
  // Names of the tensors; those of matrices and of the norm without ".weight". qkv has
  // the rows of all queries, all keys and all values.
  std::string qkv, z, b, a, conv, decay, bias, norm, output;
};

// Key heads, and their value heads and channels with them, are split over the tensor
// axis.
class GatedDeltaNet {
 public:
  // A tensor that is computed again (Pass::recompute) is empty.
  struct Saved {
    TensorView x_TD;           // input, outside the region
    TensorView mixed_TE;       // before the convolution: q, k, v, then z, b and a
    TensorView conv_TC;        // behind it
    TensorView g_TG, beta_TG;  // gates
    TensorView states, o_TGV;  // of the rule
    Norm::Saved norm;
    Linear::Saved input, output;
  };

  GatedDeltaNet(const GatedDeltaNetConfig& config, const parallel::TensorRegion& region);

  // These do as Attention::forward and backward do.
  void forward(Pass& pass, const TensorView& x_TD, const Residual& residual,
               Saved& saved) const;
  TensorView backward(Pass& pass, const TensorView& dy_TD, Saved saved);

  void collect(std::vector<Param*>& params);
  void attach(const AdapterConfig& adapters);

 private:
  // Columns of mixed_TE.
  struct Columns {
    TensorView conv_TC, z_TGV, b_TG, a_TG;
  };
  Columns columns(const TensorView& mixed_TE) const;
  // Of the rule, by the channels behind the convolution.
  kernels::DeltaInputs rule_inputs(const TensorView& conv_TC, const TensorView& g_TG,
                                   const TensorView& beta_TG) const;
  kernels::DeltaShape shape(const Pass& pass) const;
  std::int64_t channels() const;
  Range value_heads() const;

  Param input_param() const;
  Param conv_param() const;

  // mixed -> channels, gates, states, o, which are taken from `arena`.
  void recur(Pass& pass, Arena& arena, Saved& saved) const;
  // The same by what the layer keeps of earlier positions.
  void go_on(Pass& pass, Saved& saved) const;
  void go_on_with(Pass& pass, const parallel::RecurrentState& text,
                  const Saved& saved) const;
  void make_gates(Pass& pass, Arena& arena, Saved& saved) const;
  // [z, norm(o)] of each value head beside each other, in `arena`; `again`: the norm was
  // made before.
  TensorView gated_pairs(Pass& pass, Arena& arena, Saved& saved, bool again) const;
  // norm(o) silu(z), in `arena`.
  TensorView activate(Pass& pass, Arena& arena, const TensorView& pairs) const;
  // From the gradient of norm(o) silu(z): that of o, in pass.scratch, and of z.
  TensorView output_gate_backward(Pass& pass, const TensorView& dy_TGV, Saved& saved,
                                  const TensorView& pairs, const TensorView& dz_TGV);
  // From the gradient of o: that of q, k and v behind the convolution, in pass.scratch,
  // and of b and a.
  TensorView rule_backward(Pass& pass, const TensorView& do_TGV, const Saved& saved,
                           const Columns& dmixed);

  GatedDeltaNetConfig config_;
  const parallel::TensorRegion& region_;
  Range key_heads_;       // of this rank
  std::int64_t sharing_;  // value heads of a key head
  Linear input_, output_;
  Param conv_, decay_, bias_;
  Norm norm_;
};

}  // namespace trireme::nn
