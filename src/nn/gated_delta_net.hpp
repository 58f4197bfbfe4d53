// GatedDeltaNet: linear attention by the gated delta rule, in place of attention.
// SPDX-License-Identifier: Apache-2.0
// Source: Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024, section 3.4; with
// the gates of Qwen3-Next (Qwen Team, 2025). With H key heads of width K and G value
// heads of width V, each key head serving G / H of them:
//   [q, k, v] = silu(conv(x Wqkv)), z = x Wz, g and beta from a = x Wa and b = x Wb
//   o = gated delta rule of q, k, v, g and beta (kernels/delta_rule.hpp)
//   y = (norm(o) silu(z)) Wo, the norm of each value head
// Legend: T tokens, C = 2 H K + G V channels of this rank, W taps, E = C + G V + 2 G.
// Where ranks of a context axis hold parts of sequences, each does the convolution and
// the rule of whole sequences for its part of the heads (parallel::SequenceExchange); T,
// C, G and H are then of that part in what belongs to these.
#pragma once

#include <array>
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
// axis, and over the context axis for the rule.
class GatedDeltaNet {
 public:
  // What the rule is made of: q, k and v before the convolution, and two gates.
  struct RuleColumns {
    TensorView conv_TC, b_TG, a_TG;
  };
  // A tensor that is computed again (Pass::recompute) is empty.
  struct Saved {
    TensorView x_TD;  // input, outside the region
    TensorView z_TGV;
    RuleColumns mixed;
    TensorView conv_TC;        // behind the convolution
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
  // Columns of the projection's output, [T, E].
  struct Columns {
    RuleColumns rule;
    TensorView z_TGV;
  };
  Columns columns(const TensorView& mixed_TE) const;
  // The same of what the rule is made of alone, [T, C + 2 G].
  RuleColumns rule_columns(const Pass& pass, const TensorView& rule_TE) const;
  // Of the rule, by the channels behind the convolution.
  kernels::DeltaInputs rule_inputs(const TensorView& conv_TC, const TensorView& g_TG,
                                   const TensorView& beta_TG) const;
  // Of the rule.
  kernels::DeltaShape shape(const Pass& pass) const;
  // With where documents begin, in pass.scratch if other ranks know it.
  kernels::DeltaShape shape_of_documents(Pass& pass) const;
  // The key heads, and value heads, whose rule this rank does, counted from its first.
  Range rule_keys(const Pass& pass) const;
  Range rule_values(const Pass& pass) const;
  std::int64_t channels(std::int64_t key_heads) const;
  Range value_heads() const;
  // body(channels of this rank, the same among those whose rule it does), each a range.
  template <class Body>
  void for_channels(const Pass& pass, const Body& body) const;

  Param input_param() const;
  Param conv_param() const;

  // What is exchanged between rows of all heads and whole sequences of some: q, k, v, b
  // and a.
  std::array<parallel::SequenceExchange::Columns, 5> exchanged(
      const Pass& pass, const RuleColumns& outside, const RuleColumns& inside) const;
  // z, and what the rule is made of, from the projection's output.
  void take_apart(Pass& pass, const TensorView& mixed_TE, Saved& saved) const;
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
  // From the gradient of o, in rows of this rank, to that of what the rule is made of.
  void mixed_backward(Pass& pass, const TensorView& do_TGV, const Saved& saved,
                      const RuleColumns& d);
  // The same in the rule's rows and heads: first q, k and v behind the convolution.
  void rule_backward(Pass& pass, const TensorView& do_TGV, const Saved& saved,
                     const RuleColumns& d);
  void conv_backward(Pass& pass, const kernels::DeltaShape& rule,
                     const TensorView& dconv_TC, const Saved& saved,
                     const TensorView& d_TC);

  GatedDeltaNetConfig config_;
  const parallel::TensorRegion& region_;
  Range key_heads_;       // of this rank
  std::int64_t sharing_;  // value heads of a key head
  Linear input_, output_;
  Param conv_, decay_, bias_;
  Norm norm_;
};

}  // namespace trireme::nn
