// GPT-2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "model/families/llama.hpp"

namespace trireme::model {
namespace names {

inline constexpr TensorNames gpt2 = {.tokens = "transformer.wte",
                                     .positions = "transformer.wpe",
                                     .layers = "transformer.h.",
                                     .final_norm = "transformer.ln_f",
                                     .head = "lm_head",
                                     .attention_norm = "ln_1",
                                     .feed_forward_norm = "ln_2",
                                     .q = "attn.c_attn",
                                     .k = "",
                                     .v = "",
                                     .output = "attn.c_proj",
                                     .q_norm = "",
                                     .k_norm = "",
                                     .gate = "",
                                     .up = "mlp.c_fc",
                                     .down = "mlp.c_proj"};

}  // namespace names

// Radford et al., 2019.
inline constexpr ArchitectureRow gpt2_row = {
    .name = "gpt2",
    .doc = "LayerNorm, learned positions, biases, GELU",
    .norm = nn::NormKind::layer,
    .positions = Positions::learned,
    .grouped = false,
    .qkv_bias = true,
    .output_bias = true,
    .qk_norm = nn::QkNorm::none,
    .activation = nn::Activation::gelu,
    .feed_forward_bias = true,
    .experts = false,
    .names = names::gpt2,
};

namespace hugging_face {

inline constexpr ConfigKeys gpt2_keys = {.layers = "n_layer",
                                         .hidden = "n_embd",
                                         .heads = "n_head",
                                         .kv_heads = "",
                                         .head_width = "",
                                         .feed_forward = "n_inner",
                                         .positions = "n_positions",
                                         .norm_eps = "layer_norm_epsilon",
                                         .activation = "activation_function"};

inline constexpr ConfigDefaults gpt2_defaults = {.vocabulary = 50257,
                                                 .layers = 12,
                                                 .hidden = 768,
                                                 .heads = 12,
                                                 .kv_heads = 0,
                                                 .head_width = 0,
                                                 .feed_forward = 0,
                                                 .positions = 1024,
                                                 .window = 0,
                                                 .norm_eps = 1e-5,
                                                 .rope_theta = 0,
                                                 .tied = true};

inline constexpr std::array gpt2_aliases = {
    KeyAlias{"hidden_size", "n_embd"}, KeyAlias{"num_hidden_layers", "n_layer"},
    KeyAlias{"num_attention_heads", "n_head"},
    KeyAlias{"max_position_embeddings", "n_positions"}};
inline constexpr std::array gpt2_neutral = {NeutralKey{"add_cross_attention", "false"}};
inline constexpr std::array<std::string_view, 4> gpt2_transposed = {
    ".c_attn.weight", ".attn.c_proj.weight", ".c_fc.weight", ".mlp.c_proj.weight"};
inline constexpr std::array<std::string_view, 2> gpt2_buffers = {".attn.bias",
                                                                 ".attn.masked_bias"};

constexpr HuggingFaceRow gpt2() {
  HuggingFaceRow row =
      like_llama("gpt2", "GPT2LMHeadModel", "gpt2", gpt2_defaults, no_window);
  row.base = "transformer.";
  row.activation = "gelu_new";
  row.keys = gpt2_keys;
  row.keys.scale_by_width = "scale_attn_weights";
  row.keys.scale_by_layer = "scale_attn_by_inverse_layer_idx";
  row.neutral = gpt2_neutral;
  row.transposed = gpt2_transposed;
  row.buffers = gpt2_buffers;
  row.leaves_padding = false;
  return row;
}

}  // namespace hugging_face
}  // namespace trireme::model
