// gpt-oss.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "model/families/llama.hpp"

namespace trireme::model {

namespace names {

constexpr TensorNames gpt_oss() {
  TensorNames names = llama;
  names.sinks = "self_attn.sinks";
  names.experts.router = "router";
  return names;
}

}  // namespace names

// OpenAI, 2025: arXiv 2508.10925.
constexpr ArchitectureRow gpt_oss_row() {
  ArchitectureRow row = without_free_biases(llama_row);
  row.name = "gpt_oss";
  row.doc = "llama with attention sinks, experts (model.moe), and biases on all of them";
  row.qkv_bias = row.output_bias = row.free_own_bias = true;
  row.activation = nn::Activation::clamped_swiglu;
  row.experts = row.moe_biases = true;
  row.names = names::gpt_oss();
  return row;
}

namespace hugging_face {

inline constexpr std::array gpt_oss_neutral = {NeutralKey{"swiglu_alpha", "1.702"},
                                               NeutralKey{"swiglu_limit", "7.0"}};

inline constexpr std::array gpt_oss_stacks = {
    StackedPart{"gate_proj.weight", "gate_up_proj", 2, 0},
    StackedPart{"up_proj.weight", "gate_up_proj", 2, 1},
    StackedPart{"gate_proj.bias", "gate_up_proj_bias", 2, 0},
    StackedPart{"up_proj.bias", "gate_up_proj_bias", 2, 1},
    StackedPart{"down_proj.weight", "down_proj"},
    StackedPart{"down_proj.bias", "down_proj_bias"}};

constexpr HuggingFaceRow gpt_oss() {
  ConfigDefaults d = llama_defaults;
  d.vocabulary = 201088;
  d.layers = 36;
  d.hidden = d.feed_forward = 2880;
  d.heads = 64;
  d.kv_heads = 8;
  d.head_width = 64;
  d.positions = 131072;
  d.window = 128;
  d.norm_eps = 1e-5;
  d.rope_theta = 150000;
  d.moe.experts = 128;
  d.moe.top_k = 4;
  d.moe.normalise = true;
  HuggingFaceRow row =
      like_llama("gpt_oss", "GptOssForCausalLM", "gpt_oss", d, window_but_every(2));
  row.keys.moe.experts = "num_local_experts";
  row.keys.moe.experts_too = "num_experts";
  row.keys.moe.top_k = "num_experts_per_tok";
  row.keys.attention_bias = "attention_bias";
  row.one_activation = true;
  row.rope.default_scaling = R"({"rope_type": "yarn", "factor": 32.0, "truncate": false,
                                 "original_max_position_embeddings": 4096})";
  row.neutral = gpt_oss_neutral;
  row.stacks = gpt_oss_stacks;
  return row;
}

}  // namespace hugging_face
}  // namespace trireme::model
