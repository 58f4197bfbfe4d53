// DeepSeek's mixture of experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "model/families/llama.hpp"

namespace trireme::model {

namespace names {

constexpr TensorNames deepseek() {
  TensorNames names = llama;
  names.experts.shared = "shared_experts";
  return names;
}

constexpr TensorNames latent() {
  TensorNames names = deepseek();
  names.k = names.v = names.k_norm = "";
  names.latent.q_down = "self_attn.q_a_proj";
  names.q_norm = "self_attn.q_a_layernorm";
  names.latent.q_up = "self_attn.q_b_proj";
  names.latent.down = "self_attn.kv_a_proj_with_mqa";
  names.latent.norm = "self_attn.kv_a_layernorm";
  names.latent.up = "self_attn.kv_b_proj";
  return names;
}

}  // namespace names

// DeepSeek-AI, 2024.
constexpr ArchitectureRow deepseek_moe_row() {
  ArchitectureRow row = without_free_biases(llama_row);
  row.name = "deepseek_moe";
  row.doc = "as mixtral, and shared experts";
  row.experts = true;
  row.free_experts = row.free_router = true;
  row.names = names::deepseek();
  return row;
}

// DeepSeek-AI, 2024: DeepSeek-V2, arXiv 2405.04434.
constexpr ArchitectureRow deepseek_v2_row() {
  ArchitectureRow row = deepseek_moe_row();
  row.name = "deepseek_v2";
  row.doc = "deepseek_moe with latent attention (model.latent)";
  row.grouped = false;
  row.latent = row.neighbours = true;
  row.free_qkv_bias = row.free_output_bias = true;
  row.names = names::latent();
  row.names.experts.shared_biases = true;
  return row;
}

// DeepSeek-AI, 2024: DeepSeek-V3, arXiv 2412.19437.
constexpr ArchitectureRow deepseek_v3_row() {
  ArchitectureRow row = deepseek_v2_row();
  row.name = "deepseek_v3";
  row.doc =
      "as deepseek_v2; its class has sigmoid routers with a bias of the choice "
      "(model.moe.router, choice_bias)";
  row.names.experts.shared_biases = false;
  return row;
}

namespace hugging_face {

constexpr HuggingFaceRow deepseek(std::string_view type, std::string_view class_name,
                                  const ConfigDefaults& defaults) {
  HuggingFaceRow row = like_llama(type, class_name, type, defaults, no_window);
  row.keys.head_width = "";
  row.keys.latent = "kv_lora_rank";
  row.keys.query_latent = "q_lora_rank";
  row.keys.unturned_width = "qk_nope_head_dim";
  row.keys.rotary_width = "qk_rope_head_dim";
  row.keys.value_width = "v_head_dim";
  row.keys.moe.experts = "n_routed_experts";
  row.keys.moe.experts_too = "num_local_experts";
  row.keys.moe.top_k = "num_experts_per_tok";
  row.keys.moe.feed_forward = "moe_intermediate_size";
  row.keys.moe.shared_experts = "n_shared_experts";
  row.keys.moe.scaling = "routed_scaling_factor";
  row.keys.moe.groups = "n_group";
  row.keys.moe.groups_used = "topk_group";
  row.keys.moe.dense_layers = "first_k_dense_replace";
  row.keys.attention_bias = "attention_bias";
  row.neutral = {};
  row.stacks_too.parts = experts_as_held;
  row.further_layers = true;
  return row;
}

constexpr ConfigDefaults deepseek_v2_defaults() {
  ConfigDefaults d = llama_defaults;
  d.moe = {.experts = 64, .top_k = 0, .feed_forward = 1407, .shared_experts = 2};
  d.latent = 512;
  d.query_latent = 1536;
  d.unturned_width = d.value_width = 128;
  d.rotary_width = 64;
  return d;
}

constexpr HuggingFaceRow deepseek_v2() {
  HuggingFaceRow row =
      deepseek("deepseek_v2", "DeepseekV2ForCausalLM", deepseek_v2_defaults());
  row.keys.moe.experts_too = "num_experts";
  row.keys.moe.group_method = "topk_method";
  row.keys.mlp_bias = "mlp_bias";
  row.router.group_counts = 1;
  row.hidden_of_heads = true;
  return row;
}

constexpr HuggingFaceRow deepseek_v3() {
  ConfigDefaults d = deepseek_v2_defaults();
  d.vocabulary = 129280;
  d.layers = 61;
  d.hidden = 7168;
  d.heads = 128;
  d.feed_forward = 18432;
  d.positions = 4096;
  d.moe.experts = 256;
  d.moe.top_k = 8;
  d.moe.feed_forward = 2048;
  d.moe.shared_experts = 1;
  d.moe.groups = 8;
  d.moe.groups_used = 4;
  d.moe.dense_layers = 3;
  d.moe.scaling = 2.5;
  d.moe.normalise = true;
  HuggingFaceRow row = deepseek("deepseek_v3", "DeepseekV3ForCausalLM", d);
  row.keys.moe.normalise = "norm_topk_prob";
  row.keys.neighbours = "rope_interleave";
  row.router.score = kernels::RouterScore::sigmoid;
  row.router.choice_bias = true;
  return row;
}

}  // namespace hugging_face
}  // namespace trireme::model
