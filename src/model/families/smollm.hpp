// SmolLM 3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/families/llama.hpp"

namespace trireme::model {

// Bakouch et al., 2025. Some layers without positions: Yang et al., "Rope to Nope and
// Back Again", 2025.
constexpr ArchitectureRow smollm3_row() {
  ArchitectureRow row = llama_row;
  row.name = "smollm3";
  row.doc = "llama of which some layers have no rotary positions (model.rope.layers)";
  return row;
}

namespace hugging_face {

constexpr HuggingFaceRow smollm3() {
  ConfigDefaults d = llama_defaults;
  d.vocabulary = 128256;
  d.layers = 36;
  d.hidden = 2048;
  d.heads = 16;
  d.kv_heads = 4;
  d.positions = 32768;
  d.rope_theta = 2e6;
  d.tied = true;
  d.pad_token = 128004;
  HuggingFaceRow row = with_attention_bias(
      like_llama("smollm3", "SmolLM3ForCausalLM", "smollm3", d, no_window));
  row.window = {.exists = true, .by_flag = true, .by_layer = true, .unturned = true};
  row.rope.some_layers = true;
  row.keys.mlp_bias = "mlp_bias";
  return row;
}

}  // namespace hugging_face
}  // namespace trireme::model
