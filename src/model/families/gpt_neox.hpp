// GPT-NeoX and Pythia.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "model/families/gpt2.hpp"

namespace trireme::model {

namespace names {

constexpr TensorNames gpt_neox() {
  TensorNames names = gpt2;
  names.tokens = "gpt_neox.embed_in";
  names.positions = "";
  names.layers = "gpt_neox.layers.";
  names.final_norm = "gpt_neox.final_layer_norm";
  names.head = "embed_out";
  names.renamed = {"embed_out", "lm_head"};
  names.attention_norm = "input_layernorm";
  names.feed_forward_norm = "post_attention_layernorm";
  names.q = "attention.query_key_value";
  names.output = "attention.dense";
  names.up = "mlp.dense_h_to_4h";
  names.down = "mlp.dense_4h_to_h";
  return names;
}

}  // namespace names

// Black et al., 2022: arXiv 2204.06745.
constexpr ArchitectureRow gpt_neox_row() {
  ArchitectureRow row = gpt2_row;
  row.name = "gpt_neox";
  row.doc = "gpt2 with rotary positions, and both halves of a block side by side";
  row.positions = Positions::rotary;
  row.free_own_bias = true;
  row.query_tensor = nn::QueryTensor::fused_by_head;
  row.activation = nn::Activation::gelu_erf;
  row.parallel_halves = true;
  row.names = names::gpt_neox();
  return row;
}

namespace hugging_face {

inline constexpr std::array<std::string_view, 3> gpt_neox_buffers = {
    ".attention.bias", ".attention.masked_bias", ".attention.rotary_emb.inv_freq"};

constexpr HuggingFaceRow gpt_neox() {
  ConfigDefaults d = llama_defaults;
  d.vocabulary = 50432;
  d.layers = 44;
  d.hidden = 6144;
  d.heads = 64;
  d.feed_forward = 24576;
  d.norm_eps = 1e-5;
  HuggingFaceRow row =
      like_llama("gpt_neox", "GPTNeoXForCausalLM", "gpt_neox", d, no_window);
  row.base = "gpt_neox.";
  row.activation = "gelu";
  row.keys.kv_heads = row.keys.head_width = "";
  row.leaves_padding = false;
  row.keys.norm_eps = "layer_norm_eps";
  row.keys.parallel_residual = "use_parallel_residual";
  row.neutral = {};
  row.keys.attention_bias = "attention_bias";
  row.buffers = gpt_neox_buffers;
  row.rope = {.theta = "rotary_emb_base", .part = "rotary_pct", .default_part = 0.25};
  return row;
}

}  // namespace hugging_face
}  // namespace trireme::model
