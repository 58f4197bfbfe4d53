// OLMo 2 and 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/families/llama.hpp"

namespace trireme::model {

namespace names {

constexpr TensorNames olmo2() {
  TensorNames names = llama;
  names.attention_norm = names.feed_forward_norm = "";
  names.attention_output_norm = "post_attention_layernorm";
  names.feed_forward_output_norm = "post_feedforward_layernorm";
  return names;
}

}  // namespace names

// OLMo Team, 2024: arXiv 2501.00656.
constexpr ArchitectureRow olmo2_row() {
  ArchitectureRow row = llama_row;
  row.name = "olmo2";
  row.doc = "llama with norms of the halves' outputs, and of all heads' q and k at once";
  row.qk_norm = nn::QkNorm::wide;
  row.names = names::olmo2();
  return row;
}

namespace hugging_face {

constexpr HuggingFaceRow olmo2() {
  ConfigDefaults d = llama_defaults;
  d.vocabulary = 50304;
  d.norm_eps = 1e-5;
  d.pad_token = 1;
  return with_attention_bias(
      like_llama("olmo2", "Olmo2ForCausalLM", "olmo2", d, no_window));
}

constexpr HuggingFaceRow olmo3() {
  HuggingFaceRow row = olmo2();
  row.model_type = "olmo3";
  row.class_name = "Olmo3ForCausalLM";
  row.defaults.rope_theta = 500000;
  row.defaults.window = 4096;
  row.window = window_but_every(4);
  row.rope = {.by_kind = true, .default_sliding_theta = 500000};
  return row;
}

}  // namespace hugging_face
}  // namespace trireme::model
