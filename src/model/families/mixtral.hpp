// Mixtral.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "model/families/llama.hpp"

namespace trireme::model {
namespace names {

constexpr TensorNames mixtral() {
  TensorNames names = llama;
  names.experts.layer = "block_sparse_moe";
  names.experts.gate = "w1";
  names.experts.up = "w3";
  names.experts.down = "w2";
  names.renamed = {"block_sparse_moe.gate", "mlp.gate"};
  return names;
}

}  // namespace names

// Jiang et al., 2024.
constexpr ArchitectureRow mixtral_row() {
  ArchitectureRow row = without_free_biases(llama_row);
  row.name = "mixtral";
  row.doc = "llama with experts (model.moe)";
  row.experts = true;
  row.names = names::mixtral();
  return row;
}

namespace hugging_face {

constexpr ConfigKeys mixtral_keys() {
  ConfigKeys keys = llama_keys;
  keys.moe.experts = "num_local_experts";
  keys.moe.experts_too = "num_experts";
  keys.moe.top_k = "num_experts_per_tok";
  return keys;
}

constexpr ConfigDefaults mixtral_defaults() {
  ConfigDefaults d = mistral_defaults();
  d.window = 0;
  d.norm_eps = 1e-5;
  d.rope_theta = 1e6;
  d.moe.normalise = true;
  return d;
}

inline constexpr std::array mixtral_as_held = {
    StackedPart{"w1.weight", "gate_up_proj", 2, 0, true},
    StackedPart{"w3.weight", "gate_up_proj", 2, 1, true},
    StackedPart{"w2.weight", "down_proj", 1, 0, true}};

inline constexpr std::array mixtral_neutral = {NeutralKey{"router_jitter_noise", "0.0"}};

constexpr HuggingFaceRow mixtral() {
  HuggingFaceRow row = like_llama("mixtral", "MixtralForCausalLM", "mixtral",
                                  mixtral_defaults(), window_in_all);
  row.keys = mixtral_keys();
  row.neutral = mixtral_neutral;
  row.stacks_too = {.parts = mixtral_as_held, .layer = "mlp"};
  return row;
}

}  // namespace hugging_face
}  // namespace trireme::model
