// Llama, Mistral and Ministral.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "model/hugging_face_row.hpp"

namespace trireme::model {
namespace names {

inline constexpr TensorNames llama = {
    .tokens = "model.embed_tokens",
    .positions = "",
    .layers = "model.layers.",
    .final_norm = "model.norm",
    .head = "lm_head",
    .attention_norm = "input_layernorm",
    .feed_forward_norm = "post_attention_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .output = "self_attn.o_proj",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .experts = {
        .layer = "mlp", .gate = "gate_proj", .up = "up_proj", .down = "down_proj"}};

}  // namespace names

// Llama's (Touvron et al., 2023); what later ones change.
inline constexpr ArchitectureRow llama_row = {
    .name = "llama",
    .doc = "RMSNorm, rotary positions, SwiGLU",
    .norm = nn::NormKind::rms,
    .positions = Positions::rotary,
    .grouped = true,
    .qkv_bias = false,
    .output_bias = false,
    .qk_norm = nn::QkNorm::none,
    .activation = nn::Activation::swiglu,
    .feed_forward_bias = false,
    .experts = false,
    .free_qkv_bias = true,
    .free_output_bias = true,
    .names = names::llama,
};

constexpr ArchitectureRow without_free_biases(const ArchitectureRow& other) {
  ArchitectureRow row = other;
  row.free_qkv_bias = row.free_output_bias = false;
  return row;
}

namespace hugging_face {

inline constexpr ConfigKeys llama_keys = {.layers = "num_hidden_layers",
                                          .hidden = "hidden_size",
                                          .heads = "num_attention_heads",
                                          .kv_heads = "num_key_value_heads",
                                          .head_width = "head_dim",
                                          .feed_forward = "intermediate_size",
                                          .positions = "max_position_embeddings",
                                          .norm_eps = "rms_norm_eps",
                                          .activation = "hidden_act"};

inline constexpr ConfigDefaults llama_defaults = {.vocabulary = 32000,
                                                  .layers = 32,
                                                  .hidden = 4096,
                                                  .heads = 32,
                                                  .kv_heads = 0,
                                                  .head_width = 0,
                                                  .feed_forward = 11008,
                                                  .positions = 2048,
                                                  .window = 0,
                                                  .norm_eps = 1e-6,
                                                  .rope_theta = 10000,
                                                  .tied = false};

constexpr ConfigDefaults mistral_defaults() {
  ConfigDefaults d = llama_defaults;
  d.kv_heads = 8;
  d.feed_forward = 14336;
  d.positions = 131072;
  d.window = 4096;
  return d;
}

inline constexpr std::array llama_neutral = {NeutralKey{"attention_bias", "false"},
                                             NeutralKey{"mlp_bias", "false"}};
inline constexpr std::array<std::string_view, 1> llama_buffers = {".rotary_emb.inv_freq"};
constexpr HuggingFaceRow like_llama(std::string_view type, std::string_view class_name,
                                    std::string_view architecture,
                                    const ConfigDefaults& defaults,
                                    const WindowRule& window) {
  return {.model_type = type,
          .class_name = class_name,
          .architecture = architecture,
          .base = "model.",
          .activation = "silu",
          .same_activation = "",
          .keys = llama_keys,
          .defaults = defaults,
          .window = window,
          .neutral = llama_neutral,
          .transposed = {},
          .buffers = llama_buffers};
}

// Its class has a key for biases of q, k, v and the output.
constexpr HuggingFaceRow with_attention_bias(const HuggingFaceRow& other) {
  HuggingFaceRow row = other;
  row.keys.attention_bias = "attention_bias";
  row.neutral = {};
  return row;
}

constexpr HuggingFaceRow llama() {
  HuggingFaceRow row = with_attention_bias(
      like_llama("llama", "LlamaForCausalLM", "llama", llama_defaults, no_window));
  row.keys.mlp_bias = "mlp_bias";
  row.hidden_of_heads = true;
  return row;
}
inline constexpr HuggingFaceRow mistral = like_llama(
    "mistral", "MistralForCausalLM", "llama", mistral_defaults(), window_in_all);
inline constexpr HuggingFaceRow ministral = like_llama(
    "ministral", "MinistralForCausalLM", "llama", mistral_defaults(), window_by_layer);

}  // namespace hugging_face
}  // namespace trireme::model
