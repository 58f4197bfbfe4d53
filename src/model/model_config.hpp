// The shape of a model: what a deck's [model] section says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/causal_conv.hpp"
#include "kernels/rope.hpp"
#include "kernels/router.hpp"
#include "model/architectures.hpp"

namespace trireme::model {

// MoE layers in place of feed-forwards: what a deck's [model.moe] section says.
struct MoeSettings {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;                // experts of a token
  std::int64_t shared_experts = 0;       // that every token uses besides
  std::int64_t shared_feed_forward = 0;  // of all of those; 0: as wide as so many experts
  std::int64_t expert_feed_forward = 0;  // of one expert; 0: model.feed_forward
  // Layers with an ordinary feed-forward: the first, further ones by their numbers, and
  // all but every so many-th.
  std::int64_t dense_layers = 0;
  std::vector<std::int64_t> mlp_layers{};
  std::int64_t every = 1;
  kernels::ExpertGroups groups{};  // of which a token uses some
  kernels::RouterScore router = kernels::RouterScore::softmax;
  bool normalise = true;  // weights of a token's experts sum to `scaling`
  double scaling = 1.0;
  double capacity_factor = 0;   // 0: no token is dropped
  double aux_loss = 0;          // factor of the balance loss of a sequence
  double z_loss = 0;            // factor of the router's z-loss
  bool choice_bias = false;     // the choice adds a bias (DeepSeek-V3), ...
  double bias_update_rate = 0;  // ... moved by this much after each step
};

// Keys and values made of a small vector a token (nn::LatentAttention): what a deck's
// [model.latent] section says. The last rope_width numbers of a head turn.
struct LatentSettings {
  std::int64_t width = 0;        // of that vector
  std::int64_t query_width = 0;  // of the small query; 0: queries are made at once
  std::int64_t value_width = 0;  // of a head
  double score_factor = 1;       // scores are this times q k / sqrt(K)
  bool neighbours = true;        // pairs of neighbours turn, not of the halves
};

// Layers with linear attention in place of attention (nn::GatedDeltaNet): what a deck's
// [model.linear] section says.
struct LinearSettings {
  std::int64_t key_heads = 0, value_heads = 0;
  std::int64_t key_width = 128, value_width = 128;  // of a head
  std::int64_t taps = 4;                            // of the convolution
  static constexpr std::int64_t most_taps = kernels::most_conv_taps;
};

// What attention adds to scores and projections where the architecture leaves it open.
struct AttentionSettings {
  LatentSettings latent{};  // of architectures with latent attention
  LinearSettings linear{};  // of architectures with linear attention
  bool bias = false;        // of q, k, v and what else the architecture's row says
  bool own_bias = true;     // those that the architecture always has, if it is free to
  bool qk_norm = false;     // RMSNorm of each head's q and k
  // Scores are q k over its root; 0: over that of a head's width.
  double query_scalar = 0;
  double cap = 0;               // scores x are cap tanh(x / cap); 0: as they are
  bool scale_by_layer = false;  // scores of layer i are divided by i + 1, too
  double dropout = 0;           // part of the probabilities that training drops
};

// How the halves of a block read the residual stream, and the rates at which training
// drops what they add to it, and the embedding.
struct ResidualSettings {
  bool parallel = true;  // of architectures where both read the block's input: they do
  double dropout = 0, embedding_dropout = 0;
  std::int64_t pad_token = -1;  // whose embedding has no gradient; -1: all have one
};

// Of feed-forwards and experts.
struct FeedForwardSettings {
  bool bias = false;  // with gates; without them the architecture says
  std::optional<nn::Activation> activation{};  // without one the architecture's
};

// The words of ModelConfig::layer_types, as in transformers.
inline constexpr std::string_view full_attention = "full_attention",
                                  sliding_attention = "sliding_attention",
                                  linear_attention = "linear_attention";

struct ModelConfig {
  Architecture architecture = Architecture::llama;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;          // D
  std::int64_t heads = 0;           // H
  std::int64_t kv_heads = 0;        // G; divides H
  std::int64_t own_head_width = 0;  // K; 0: D / H
  std::int64_t feed_forward = 0;    // F
  std::int64_t vocabulary = 0;      // V
  std::int64_t sequence = 0;        // S
  std::int64_t own_positions = 0;   // of texts, all that are learned; 0: as many as S
  std::int64_t window = 0;  // positions that attention sees, itself the last; 0: all
  // Of each layer, which kind of attention it has; empty: all have the window.
  std::vector<std::string> layer_types{};
  AttentionSettings attention{};
  double rope_theta = 10000.0;
  kernels::RopeScaling rope_scaling{};
  std::int64_t rope_width = 0;    // numbers of each head that turn; 0: all
  double sliding_rope_theta = 0;  // of layers with a window, without scaling; 0: as all
  // Of each layer, whether its heads turn: 1 or 0; empty: all do.
  std::vector<std::int64_t> rope_layers{};
  double norm_eps = 1e-5;
  bool tie_embeddings = false;
  double initializer_range = 0.02;  // standard deviation of the initial weights
  ResidualSettings residual{};
  double logit_cap = 0;  // logits x are cap tanh(x / cap); 0: as they are
  MoeSettings moe{};     // of architectures with experts
  FeedForwardSettings mlp{};

  const ArchitectureRow& row() const { return row_of(architecture); }
  bool has_experts() const { return row().experts; }
  nn::Activation activation() const { return mlp.activation.value_or(row().activation); }
  bool gated() const { return kernels::row_of(activation()).gated; }
  // Whether this layer's feed-forward is an MoE layer.
  bool is_moe(std::int64_t layer) const {
    const auto& dense = moe.mlp_layers;
    return has_experts() && layer >= moe.dense_layers && (layer + 1) % moe.every == 0 &&
           std::find(dense.begin(), dense.end(), layer) == dense.end();
  }
  // Of the expert that all tokens use; 0: there is none.
  std::int64_t shared_width() const {
    return moe.shared_feed_forward > 0 ? moe.shared_feed_forward
                                       : moe.shared_experts * expert_width();
  }
  std::int64_t expert_width() const {
    return moe.expert_feed_forward > 0 ? moe.expert_feed_forward : feed_forward;
  }

  bool has_linear() const { return row().names.linear.exist(); }
  // Whether this layer's attention is linear; without layer_types all but every fourth.
  bool is_linear(std::int64_t layer) const {
    if (!has_linear()) return false;
    if (layer_types.empty()) return (layer + 1) % 4 != 0;
    return layer_types.at(static_cast<std::size_t>(layer)) == linear_attention;
  }

  // The window of this layer, 0 where it sees all positions.
  std::int64_t window_of(std::int64_t layer) const {
    if (layer_types.empty()) return window;
    return layer_types.at(static_cast<std::size_t>(layer)) == sliding_attention ? window
                                                                                : 0;
  }

  // Of a head's values; of architectures with latent attention.
  std::int64_t value_width() const {
    return attention.latent.value_width > 0 ? attention.latent.value_width : head_width();
  }
  std::int64_t head_width() const {
    return own_head_width > 0 ? own_head_width : hidden / heads;
  }

  bool rotary() const { return row().positions == Positions::rotary; }
  // That a text may have, at least S; learned ones are a tensor of so many rows.
  std::int64_t positions() const { return own_positions > 0 ? own_positions : sequence; }
  // Whether samples may have `length` tokens: where nobody has said how many positions
  // there are, rotary ones may become more.
  bool allows_sequence(std::int64_t length) const {
    return any_length() || (rotary() && own_positions == 0) || length <= positions();
  }
  // Texts may have as many positions as before, if not more.
  void set_sequence(std::int64_t length) {
    if (own_positions == 0 && length < sequence) own_positions = sequence;
    if (length > own_positions) own_positions = 0;
    sequence = length;
  }
  // Whether positions turn by the length of the text, so that texts may have any: then
  // `sequence` is what training and evaluation take, not what the model reads at most.
  bool any_length() const {
    return rotary() && rope_scaling.kind == kernels::RopeScalingKind::dynamic;
  }
  // Positions of a conversation, of which nobody knows how long it becomes.
  std::int64_t usual_positions() const {
    if (!any_length()) return positions();
    return std::max(
        sequence, static_cast<std::int64_t>(rope_scaling.original * rope_scaling.factor));
  }
  // Positions of a text that is to become `wanted` tokens long.
  std::int64_t positions_for(std::int64_t wanted) const {
    return any_length() || wanted < positions() ? wanted : positions();
  }
  // Whether training drops anything.
  bool drops() const {
    return residual.dropout > 0 || residual.embedding_dropout > 0 ||
           attention.dropout > 0;
  }
  std::int64_t rotary_width() const { return rope_width > 0 ? rope_width : head_width(); }
  // Whether the heads of this layer turn.
  bool turns(std::int64_t layer) const {
    return rotary() &&
           (rope_layers.empty() || rope_layers.at(static_cast<std::size_t>(layer)) != 0);
  }
  // Whether this layer turns as layers with a window do, where these have a way of their
  // own.
  bool turns_as_sliding(std::int64_t layer) const {
    return sliding_rope_theta > 0 && window_of(layer) > 0;
  }
};

}  // namespace trireme::model
