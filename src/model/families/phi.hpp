// Phi 3 and 4, of the kind with one matrix for q, k and v.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/families/llama.hpp"

namespace trireme::model {
namespace names {

constexpr TensorNames phi3() {
  TensorNames names = llama;
  names.q = "self_attn.qkv_proj";
  names.k = names.v = "";
  names.gate = names.up = "mlp.gate_up_proj";
  return names;
}

}  // namespace names

// Abdin et al., 2024.
constexpr ArchitectureRow phi3_row() {
  ArchitectureRow row = without_free_biases(llama_row);
  row.name = "phi3";
  row.doc = "llama with one tensor for q, k and v, and one for gate and up";
  row.names = names::phi3();
  return row;
}

namespace hugging_face {

constexpr HuggingFaceRow phi3() {
  ConfigDefaults d = llama_defaults;
  d.vocabulary = 32064;
  d.hidden = 3072;
  d.feed_forward = 8192;
  d.positions = 4096;
  d.norm_eps = 1e-5;
  d.pad_token = 32000;
  HuggingFaceRow row = like_llama("phi3", "Phi3ForCausalLM", "phi3", d, window_in_all);
  row.neutral = {};
  row.rope = {.part = "partial_rotary_factor", .longrope_only = true, .original = 4096};
  return row;
}

}  // namespace hugging_face
}  // namespace trireme::model
