// Qwen 2 and 3, and Qwen 3 with experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "model/families/llama.hpp"

namespace trireme::model {

// Qwen Team, 2024.
constexpr ArchitectureRow qwen2_row() {
  ArchitectureRow row = without_free_biases(llama_row);
  row.name = "qwen2";
  row.doc = "llama with biases on q, k and v";
  row.qkv_bias = true;
  return row;
}

// Qwen Team, 2025.
constexpr ArchitectureRow qwen3_row() {
  ArchitectureRow row = llama_row;
  row.name = "qwen3";
  row.doc = "llama with an RMSNorm of each head's q and k";
  row.qk_norm = nn::QkNorm::heads;
  return row;
}

// The same.
constexpr ArchitectureRow qwen3_moe_row() {
  ArchitectureRow row = qwen3_row();
  row.name = "qwen3_moe";
  row.doc = "qwen3 with experts (model.moe)";
  row.experts = row.free_experts = true;
  return row;
}

namespace names {

constexpr TensorNames qwen2_moe() {
  TensorNames names = llama;
  names.experts.shared = "shared_expert";
  names.experts.shared_gate = "shared_expert_gate";
  return names;
}

inline constexpr LinearNames qwen3_5 = {.qkv = "linear_attn.in_proj_qkv",
                                        .z = "linear_attn.in_proj_z",
                                        .b = "linear_attn.in_proj_b",
                                        .a = "linear_attn.in_proj_a",
                                        .conv = "linear_attn.conv1d",
                                        .decay = "linear_attn.A_log",
                                        .bias = "linear_attn.dt_bias",
                                        .norm = "linear_attn.norm",
                                        .output = "linear_attn.out_proj"};

}  // namespace names

// Qwen Team, 2026: Qwen3.5.
constexpr ArchitectureRow qwen3_5_row() {
  ArchitectureRow row = without_free_biases(qwen3_row());
  row.name = "qwen3_5";
  row.doc =
      "qwen3 with layers of linear attention (model.linear), gates behind attention and "
      "gains 1 + w";
  row.names.linear = names::qwen3_5;
  row.query_tensor = nn::QueryTensor::with_gates;
  row.gain_offset = 1;
  return row;
}

// Qwen Team, 2024: Qwen1.5-MoE.
constexpr ArchitectureRow qwen2_moe_row() {
  ArchitectureRow row = qwen2_row();
  row.name = "qwen2_moe";
  row.doc = "qwen2 with experts, and a shared one with a gate (model.moe)";
  row.experts = row.free_experts = row.free_own_bias = true;
  row.names = names::qwen2_moe();
  return row;
}

// Qwen Team, 2026: Qwen3.5 with experts.
constexpr ArchitectureRow qwen3_5_moe_row() {
  ArchitectureRow row = qwen3_5_row();
  row.name = "qwen3_5_moe";
  row.doc = "qwen3_5 with experts, and a shared one with a gate (model.moe)";
  row.experts = row.free_experts = true;
  row.names.experts = names::qwen2_moe().experts;
  return row;
}

namespace hugging_face {

constexpr ConfigDefaults qwen_defaults(std::int64_t head_width) {
  ConfigDefaults d = llama_defaults;
  d.vocabulary = 151936;
  d.kv_heads = 32;
  d.head_width = head_width;
  d.feed_forward = 22016;
  d.positions = 32768;
  d.window = 4096;
  return d;
}

inline constexpr HuggingFaceRow qwen2 =
    like_llama("qwen2", "Qwen2ForCausalLM", "qwen2", qwen_defaults(0), window_from_layer);
inline constexpr HuggingFaceRow qwen3 = with_attention_bias(like_llama(
    "qwen3", "Qwen3ForCausalLM", "qwen3", qwen_defaults(128), window_from_layer));

inline constexpr std::array qwen3_5_neutral = {NeutralKey{"attention_bias", "false"},
                                               NeutralKey{"attn_output_gate", "true"}};
inline constexpr std::array<std::string_view, 2> qwen3_5_left_out = {"mtp.",
                                                                     "model.visual."};
inline constexpr std::array<std::string_view, 1> qwen3_5_unit_dim = {
    ".linear_attn.conv1d.weight"};

constexpr HuggingFaceRow qwen3_5() {
  ConfigDefaults d = llama_defaults;
  d.vocabulary = 248320;
  d.heads = 16;
  d.kv_heads = 4;
  d.head_width = 256;
  d.feed_forward = 12288;
  d.positions = 32768;
  d.rope_theta = 10000;
  HuggingFaceRow row =
      like_llama("qwen3_5_text", "Qwen3_5ForCausalLM", "qwen3_5", d, no_window);
  row.rope.part = "partial_rotary_factor";
  row.rope.default_part = 0.25;
  row.rope.sections = true;
  row.outer_type = "qwen3_5";
  row.outer_base = "model.language_model.";
  row.left_out = qwen3_5_left_out;
  row.with_unit_dim = qwen3_5_unit_dim;
  row.neutral = qwen3_5_neutral;
  return row;
}

constexpr HuggingFaceRow qwen_moe(std::string_view type, std::string_view class_name,
                                  std::string_view architecture,
                                  const ConfigDefaults& defaults,
                                  const WindowRule& window) {
  HuggingFaceRow row = like_llama(type, class_name, architecture, defaults, window);
  row.keys.moe.experts = "num_experts";
  row.keys.moe.experts_too = "num_local_experts";
  row.keys.moe.top_k = "num_experts_per_tok";
  row.keys.moe.feed_forward = "moe_intermediate_size";
  row.keys.moe.normalise = "norm_topk_prob";
  row.keys.moe.mlp_layers = "mlp_only_layers";
  row.keys.moe.every = "decoder_sparse_step";
  row.stacks_too.parts = experts_as_held;
  return row;
}

constexpr HuggingFaceRow qwen3_moe() {
  ConfigDefaults d = qwen_defaults(0);
  d.layers = 24;
  d.hidden = 2048;
  d.kv_heads = 4;
  d.feed_forward = 6144;
  d.moe.experts = 128;
  d.moe.top_k = 8;
  d.moe.feed_forward = 768;
  HuggingFaceRow row =
      qwen_moe("qwen3_moe", "Qwen3MoeForCausalLM", "qwen3_moe", d, window_by_flag);
  row.keys.attention_bias = "attention_bias";
  row.neutral = {};
  return row;
}

constexpr HuggingFaceRow qwen2_moe() {
  ConfigDefaults d = qwen_defaults(0);
  d.layers = 24;
  d.hidden = 2048;
  d.heads = d.kv_heads = 16;
  d.feed_forward = 5632;
  d.moe.experts = 60;
  d.moe.top_k = 4;
  d.moe.feed_forward = 1408;
  d.moe.shared_feed_forward = 5632;
  HuggingFaceRow row =
      qwen_moe("qwen2_moe", "Qwen2MoeForCausalLM", "qwen2_moe", d, window_alternating);
  row.keys.moe.shared_feed_forward = "shared_expert_intermediate_size";
  row.keys.attention_bias = "qkv_bias";
  row.neutral = {};
  return row;
}

constexpr HuggingFaceRow qwen3_5_moe() {
  HuggingFaceRow row = qwen3_5();
  row.model_type = "qwen3_5_moe_text";
  row.class_name = "Qwen3_5MoeForCausalLM";
  row.architecture = "qwen3_5_moe";
  row.outer_type = "qwen3_5_moe";
  row.defaults.layers = 40;
  row.defaults.hidden = 2048;
  row.defaults.kv_heads = 2;
  row.defaults.moe = {.experts = 256,
                      .top_k = 8,
                      .feed_forward = 512,
                      .shared_feed_forward = 512,
                      .normalise = true};
  row.keys.feed_forward = {};
  row.keys.moe.experts = "num_experts";
  row.keys.moe.experts_too = "num_local_experts";
  row.keys.moe.top_k = "num_experts_per_tok";
  row.keys.moe.feed_forward = "moe_intermediate_size";
  row.keys.moe.shared_feed_forward = "shared_expert_intermediate_size";
  row.stacks_too.parts = experts_as_held;  // older ones, too
  return row;
}

}  // namespace hugging_face
}  // namespace trireme::model
