// GLM-4 with experts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/families/deepseek.hpp"

namespace trireme::model {

// GLM Team, 2025: GLM-4.5, arXiv 2508.06471.
constexpr ArchitectureRow glm4_moe_row() {
  ArchitectureRow row = deepseek_moe_row();
  row.name = "glm4_moe";
  row.doc = "deepseek_moe, with an RMSNorm of each head's q and k on request";
  row.free_output_bias = false;
  row.free_qkv_bias = row.free_qk_norm = true;
  return row;
}

namespace hugging_face {

constexpr HuggingFaceRow glm4_moe() {
  ConfigDefaults d = llama_defaults;
  d.vocabulary = 151552;
  d.layers = 46;
  d.heads = 96;
  d.kv_heads = 8;
  d.feed_forward = 10944;
  d.positions = 131072;
  d.norm_eps = 1e-5;
  d.moe.experts = 128;
  d.moe.top_k = 8;
  d.moe.feed_forward = 1408;
  d.moe.shared_experts = 1;
  d.moe.dense_layers = 1;
  d.moe.normalise = true;
  HuggingFaceRow row = with_attention_bias(
      like_llama("glm4_moe", "Glm4MoeForCausalLM", "glm4_moe", d, no_window));
  row.keys.qk_norm = "use_qk_norm";
  row.keys.moe.experts = "n_routed_experts";
  row.keys.moe.experts_too = "num_local_experts";
  row.keys.moe.top_k = "num_experts_per_tok";
  row.keys.moe.feed_forward = "moe_intermediate_size";
  row.keys.moe.normalise = "norm_topk_prob";
  row.keys.moe.scaling = "routed_scaling_factor";
  row.keys.moe.shared_experts = "n_shared_experts";
  row.keys.moe.groups = "n_group";
  row.keys.moe.groups_used = "topk_group";
  row.keys.moe.dense_layers = "first_k_dense_replace";
  row.rope = {.part = "partial_rotary_factor", .default_part = 0.5};
  row.stacks_too.parts = experts_as_held;
  row.further_layers = true;
  row.router.score = kernels::RouterScore::sigmoid;
  row.router.choice_bias = true;
  return row;
}

}  // namespace hugging_face
}  // namespace trireme::model
