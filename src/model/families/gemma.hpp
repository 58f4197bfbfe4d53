// Gemma, Gemma 2 and the text models of Gemma 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "model/families/llama.hpp"

namespace trireme::model {

// Gemma Team, 2024.
constexpr ArchitectureRow gemma_row() {
  ArchitectureRow row = llama_row;
  row.name = "gemma";
  row.doc =
      "llama with GeGLU, norms of 1 + weight, embeddings times the root of the width";
  row.activation = nn::Activation::geglu;
  row.gain_offset = 1;
  row.scaled_embedding = true;
  return row;
}

namespace names {

constexpr TensorNames gemma2() {
  TensorNames names = llama;
  names.attention_output_norm = "post_attention_layernorm";
  names.feed_forward_norm = "pre_feedforward_layernorm";
  names.feed_forward_output_norm = "post_feedforward_layernorm";
  return names;
}

}  // namespace names

// Gemma Team, 2024: arXiv 2408.00118.
constexpr ArchitectureRow gemma2_row() {
  ArchitectureRow row = gemma_row();
  row.name = "gemma2";
  row.doc = "gemma with norms of the outputs of both halves";
  row.names = names::gemma2();
  return row;
}

// Gemma Team, 2025: arXiv 2503.19786.
constexpr ArchitectureRow gemma3_row() {
  ArchitectureRow row = gemma2_row();
  row.name = "gemma3";
  row.doc = "gemma2 with an RMSNorm of each head's q and k";
  row.qk_norm = nn::QkNorm::heads;
  return row;
}

namespace hugging_face {

inline constexpr ConfigDefaults gemma_defaults = {.vocabulary = 256000,
                                                  .layers = 28,
                                                  .hidden = 3072,
                                                  .heads = 16,
                                                  .kv_heads = 16,
                                                  .head_width = 256,
                                                  .feed_forward = 24576,
                                                  .positions = 8192,
                                                  .window = 0,
                                                  .norm_eps = 1e-6,
                                                  .rope_theta = 10000,
                                                  .tied = true,
                                                  .pad_token = 0};

inline constexpr std::array gemma_neutral = {
    NeutralKey{"use_bidirectional_attention", "false"}};

constexpr HuggingFaceRow gemma() {
  HuggingFaceRow row =
      like_llama("gemma", "GemmaForCausalLM", "gemma", gemma_defaults, no_window);
  row.activation = "gelu_pytorch_tanh";
  row.same_activation = "gelu";  // of old files, which mean the other
  row.keys.attention_bias = "attention_bias";
  row.neutral = gemma_neutral;
  return row;
}

constexpr ConfigDefaults gemma2_defaults() {
  ConfigDefaults d = gemma_defaults;
  d.layers = 26;
  d.hidden = 2304;
  d.heads = 8;
  d.kv_heads = 4;
  d.feed_forward = 9216;
  d.window = 4096;
  d.logit_cap = 30;
  d.attention_cap = 50;
  d.query_scalar = 256;
  return d;
}

constexpr HuggingFaceRow gemma2() {
  HuggingFaceRow row = gemma();
  row.model_type = "gemma2";
  row.class_name = "Gemma2ForCausalLM";
  row.architecture = "gemma2";
  row.defaults = gemma2_defaults();
  row.window = window_but_every(2);
  row.same_activation = "";
  row.keys.activation = "hidden_activation";
  row.keys.logit_cap = "final_logit_softcapping";
  row.keys.attention_cap = "attn_logit_softcapping";
  row.keys.query_scalar = "query_pre_attn_scalar";
  row.hidden_of_heads = true;
  return row;
}

constexpr HuggingFaceRow gemma3() {
  HuggingFaceRow row = gemma2();
  row.model_type = "gemma3_text";
  row.class_name = "Gemma3ForCausalLM";
  row.architecture = "gemma3";
  row.defaults.vocabulary = 262208;
  row.defaults.positions = 131072;
  row.defaults.rope_theta = 1e6;
  row.defaults.logit_cap = row.defaults.attention_cap = 0;
  row.keys.attention_cap = "";  // its class has the key and does nothing with it
  row.window = window_but_every(6);
  row.rope = {.by_kind = true,
              .sliding_theta = "rope_local_base_freq",
              .default_sliding_theta = 10000};
  return row;
}

}  // namespace hugging_face
}  // namespace trireme::model
