// LatentAttention: attention whose keys and values are made of a small vector a token.
// SPDX-License-Identifier: Apache-2.0
// Source: DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434, section 2.1: multi-head latent
// attention. With a head's width K = N + R of queries and keys and V <= K of values:
//   q = Wqb norm(Wqa x), or Wq x; of each head the last R numbers turn with the position
//   [c, r] = Wa x; r, of R numbers, turns too and is the end of every head's key
//   [k, v] = Wb norm(c): the first N numbers of each head's key, and its V values
// Legend: T tokens, H heads of this rank, C width of c, E = 3 H K.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/dropout.hpp"
#include "nn/linear.hpp"
#include "nn/residual.hpp"
#include "nn/rotary_table.hpp"
#include "parallel/tensor_region.hpp"

namespace trireme::nn {

struct LatentAttentionConfig {
  std::int64_t hidden = 0;        // D
  std::int64_t heads = 0;         // of all ranks
  std::int64_t query_rank = 0;    // width of Wqa x; 0: queries are made of x at once
  std::int64_t latent = 0;        // C
  std::int64_t head_width = 0;    // K
  std::int64_t rotary_width = 0;  // R
  std::int64_t value_width = 0;   // V
  std::int64_t window = 0;        // positions that a query sees, itself the last; 0: all
  double scale = 0;               // of scores; 0: 1 / sqrt(K)
  bool neighbours = true;         // turn as pairs of neighbours (kernels::RotaryHeads)
  bool bias = false;              // of Wqa, Wa and the output projection
  DropoutConfig dropout{};        // of the probabilities
  double norm_eps = 1e-6;
  double deviation = 0.02, output_deviation = 0.02;  // of the initial weights
  // Names of the tensors without ".weight": of Wqa, its norm and Wqb, or Wq alone as q;
  // of Wa, its norm and Wb; of the output projection.
  std::string q_down, q_norm, q, latent_down, latent_norm, latent_up, output;
  // Of Wqb (or Wq), Wb and the output projection. Gradients of the small vectors are
  // parts of a sum on each rank, so that their products stay in the compute dtype.
  LinearPrecision products{};
};

// Heads are split over the tensor axis. Every rank makes the small vectors whole, and its
// part of their gradients.
class LatentAttention {
 public:
  // A tensor that is computed again (Pass::recompute) is empty.
  struct Saved {
    TensorView x_TD;  // input, outside the region (all tokens while a pass works)
    Norm::Saved q_norm, latent_norm;
    TensorView q_small_TQ, c_TC;  // after their norms
    TensorView qkv_TE;            // turned
    TensorView o_TE;              // [T, H K], of which each head's first V columns count
    TensorView lse_TH;
    Linear::Saved q_down, q, latent_down, latent_up, output;
  };

  // rotary: its tables, of width R, outlive this.
  LatentAttention(const LatentAttentionConfig& config,
                  const parallel::TensorRegion& region, const RotaryTable& rotary);

  // These do as Attention::forward and backward do.
  void forward(Pass& pass, const TensorView& x_TD, const Residual& residual,
               Saved& saved) const;
  TensorView backward(Pass& pass, const TensorView& dy_TD, Saved saved);

  void collect(std::vector<Param*>& params);
  void collect(std::vector<Fp8Operands*>& layers);
  void attach(const AdapterConfig& adapters);

 private:
  bool has_small_query() const { return config_.query_rank > 0; }
  std::int64_t plain_width() const { return config_.head_width - config_.rotary_width; }
  // Queries, keys and values in a fused buffer.
  struct Columns {
    TensorView q_THK, k_THK, v_THK;
  };
  Columns columns(const TensorView& fused_TE) const;
  kernels::AttentionShape shape(Pass& pass) const;
  // What is made of the rows that enter the region, of this rank's own while the others
  // travel: the small query before its norm [T, Q], without one the queries themselves
  // (not turned) in saved.qkv_TE, and the small vector: c before its norm, and r. [T, C +
  // R].
  struct Entered {
    TensorView q_small_TQ, latent_TC;
  };
  Entered enter(Pass& pass, const TensorView& x_TD, Saved& saved) const;
  void make_queries(Pass& pass, const Entered& in, Saved& saved) const;
  // c after its norm in saved.c_TC, and r, turned where it is.
  void make_latent(Pass& pass, const Entered& in, Saved& saved) const;
  void make_keys_and_values(Pass& pass, const TensorView& small_TC, Saved& saved) const;
  // o in [T, H V], by keys and values of earlier positions that are kept as small
  // vectors: queries are taken to them, in place of keys to queries.
  void attend_to_latents(Pass& pass, const TensorView& small_TC, const Saved& saved,
                         const TensorView& o_THV) const;
  void rotate(Pass& pass, const TensorView& x, std::int64_t heads, std::int64_t first,
              Direction direction) const;
  // qkv -> o, lse, which are taken from `arena`.
  void attend(Pass& pass, Arena& arena, Saved& saved) const;
  // The columns of o that count, [T, H V], in `arena`.
  TensorView values_of(Pass& pass, Arena& arena, const TensorView& o_TE) const;
  // What the weights' gradients of a projection down and up again are made of.
  struct Projected {
    Linear::Gradient up, down;
  };
  // These write dx_TD, or add to it; gradients of weights are posted later.
  Projected queries_backward(Pass& pass, const TensorView& dq_THK, const Saved& saved,
                             const TensorView& dx_TD);
  Projected keys_and_values_backward(Pass& pass, const Columns& d, const Saved& saved,
                                     const TensorView& dx_TD);
  void post_gradients(Pass& pass, const Projected& queries, const Projected& latent,
                      const Saved& saved);

  LatentAttentionConfig config_;
  const parallel::TensorRegion& region_;
  RotaryTable rotary_;
  Range heads_;  // of this rank
  std::vector<std::int32_t> kv_head_;
  std::optional<Norm> q_norm_, latent_norm_;
  Linear q_down_, q_, latent_down_, latent_up_, output_;
  Param q_down_bias_, latent_down_bias_, output_bias_;
};

}  // namespace trireme::nn
