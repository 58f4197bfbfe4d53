// What a Hugging Face folder of each family is.
// SPDX-License-Identifier: Apache-2.0
// Its keys, their defaults, and how tensors lie in it.
//
// The names of tensors are those of the architecture's row (architectures.hpp). What else
// import, export and `inspect` know of a family is its row here: a family more is a row
// more. Defaults are those of the classes of transformers 5.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "model/architectures.hpp"

namespace trireme::model {

// How a tensor in a folder becomes the model's: each its own inverse.
enum class Transform : std::uint8_t { copy, transpose };

// Keys of config.json; "": the class has none.
struct ConfigKeys {
  std::string_view layers, hidden, heads, kv_heads, head_width, feed_forward, positions;
  std::string_view norm_eps, activation, experts, top_k;
};

// What an absent key means. 0 of kv_heads: as many as heads; of head_width: hidden /
// heads; of feed_forward: 4 hidden.
struct ConfigDefaults {
  std::int64_t vocabulary, layers, hidden, heads, kv_heads, head_width, feed_forward;
  std::int64_t positions, window;
  double norm_eps, rope_theta;
  bool tied;
};

// How a window over the last positions is asked for.
enum class WindowRule : std::uint8_t { none, whenever_given, by_flag };

// A key that changes the model when it has another value than this JSON text.
struct NeutralKey {
  std::string_view key, value;
};

struct HuggingFaceRow {
  std::string_view model_type, class_name;
  Architecture architecture;
  std::string_view base;             // the prefix of all tensors but the head's
  std::string_view activation;       // the name that is written, ...
  std::string_view same_activation;  // ... and another of the same function
  ConfigKeys keys;
  ConfigDefaults defaults;
  WindowRule window;
  std::span<const NeutralKey> neutral;
  std::span<const std::string_view> transposed;  // ends of names of [in, out] tensors
  std::span<const std::string_view> buffers;     // ends of names that hold no weights
};

namespace hugging_face {

inline constexpr ConfigKeys llama_keys = {.layers = "num_hidden_layers",
                                          .hidden = "hidden_size",
                                          .heads = "num_attention_heads",
                                          .kv_heads = "num_key_value_heads",
                                          .head_width = "head_dim",
                                          .feed_forward = "intermediate_size",
                                          .positions = "max_position_embeddings",
                                          .norm_eps = "rms_norm_eps",
                                          .activation = "hidden_act",
                                          .experts = "",
                                          .top_k = ""};

constexpr ConfigKeys mixtral_keys() {
  ConfigKeys keys = llama_keys;
  keys.experts = "num_local_experts";
  keys.top_k = "num_experts_per_tok";
  return keys;
}

inline constexpr ConfigKeys gpt2_keys = {.layers = "n_layer",
                                         .hidden = "n_embd",
                                         .heads = "n_head",
                                         .kv_heads = "",
                                         .head_width = "",
                                         .feed_forward = "n_inner",
                                         .positions = "n_positions",
                                         .norm_eps = "layer_norm_epsilon",
                                         .activation = "activation_function",
                                         .experts = "",
                                         .top_k = ""};

inline constexpr ConfigDefaults llama_defaults = {.vocabulary = 32000,
                                                  .layers = 32,
                                                  .hidden = 4096,
                                                  .heads = 32,
                                                  .kv_heads = 0,
                                                  .head_width = 0,
                                                  .feed_forward = 11008,
                                                  .positions = 2048,
                                                  .window = 0,
                                                  .norm_eps = 1e-6,
                                                  .rope_theta = 10000,
                                                  .tied = false};

constexpr ConfigDefaults mistral_defaults() {
  ConfigDefaults d = llama_defaults;
  d.kv_heads = 8;
  d.feed_forward = 14336;
  d.positions = 131072;
  d.window = 4096;
  return d;
}

constexpr ConfigDefaults mixtral_defaults() {
  ConfigDefaults d = mistral_defaults();
  d.window = 0;
  d.norm_eps = 1e-5;
  d.rope_theta = 1e6;
  return d;
}

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

inline constexpr ConfigDefaults gpt2_defaults = {.vocabulary = 50257,
                                                 .layers = 12,
                                                 .hidden = 768,
                                                 .heads = 12,
                                                 .kv_heads = 0,
                                                 .head_width = 0,
                                                 .feed_forward = 0,
                                                 .positions = 1024,
                                                 .window = 0,
                                                 .norm_eps = 1e-5,
                                                 .rope_theta = 0,
                                                 .tied = true};

inline constexpr std::array llama_neutral = {NeutralKey{"attention_bias", "false"},
                                             NeutralKey{"mlp_bias", "false"}};
inline constexpr std::array gpt2_neutral = {
    NeutralKey{"scale_attn_weights", "true"},
    NeutralKey{"scale_attn_by_inverse_layer_idx", "false"},
    NeutralKey{"add_cross_attention", "false"}};
inline constexpr std::array mixtral_neutral = {NeutralKey{"router_jitter_noise", "0.0"}};

inline constexpr std::array<std::string_view, 4> gpt2_transposed = {
    ".c_attn.weight", ".attn.c_proj.weight", ".c_fc.weight", ".mlp.c_proj.weight"};
inline constexpr std::array<std::string_view, 1> llama_buffers = {".rotary_emb.inv_freq"};
inline constexpr std::array<std::string_view, 2> gpt2_buffers = {".attn.bias",
                                                                 ".attn.masked_bias"};

constexpr HuggingFaceRow like_llama(std::string_view type, std::string_view class_name,
                                    Architecture architecture,
                                    const ConfigDefaults& defaults, WindowRule window) {
  return {.model_type = type,
          .class_name = class_name,
          .architecture = architecture,
          .base = "model.",
          .activation = "silu",
          .same_activation = "swish",
          .keys = llama_keys,
          .defaults = defaults,
          .window = window,
          .neutral = llama_neutral,
          .transposed = {},
          .buffers = llama_buffers};
}

constexpr HuggingFaceRow mixtral() {
  HuggingFaceRow row = like_llama("mixtral", "MixtralForCausalLM", Architecture::mixtral,
                                  mixtral_defaults(), WindowRule::whenever_given);
  row.keys = mixtral_keys();
  row.neutral = mixtral_neutral;
  return row;
}

constexpr HuggingFaceRow gpt2() {
  HuggingFaceRow row = like_llama("gpt2", "GPT2LMHeadModel", Architecture::gpt2,
                                  gpt2_defaults, WindowRule::none);
  row.base = "transformer.";
  row.activation = "gelu_new";
  row.same_activation = "gelu_pytorch_tanh";
  row.keys = gpt2_keys;
  row.neutral = gpt2_neutral;
  row.transposed = gpt2_transposed;
  row.buffers = gpt2_buffers;
  return row;
}

}  // namespace hugging_face

// The first row of an architecture is the one that is written for it.
inline constexpr std::array hugging_face_rows = {
    hugging_face::like_llama("llama", "LlamaForCausalLM", Architecture::llama,
                             hugging_face::llama_defaults, WindowRule::none),
    hugging_face::like_llama("mistral", "MistralForCausalLM", Architecture::llama,
                             hugging_face::mistral_defaults(),
                             WindowRule::whenever_given),
    hugging_face::like_llama("qwen2", "Qwen2ForCausalLM", Architecture::qwen2,
                             hugging_face::qwen_defaults(0), WindowRule::by_flag),
    hugging_face::like_llama("qwen3", "Qwen3ForCausalLM", Architecture::qwen3,
                             hugging_face::qwen_defaults(128), WindowRule::by_flag),
    hugging_face::mixtral(),
    hugging_face::gpt2()};

// How the model's tensor of this name lies in a folder of the family.
constexpr Transform transform_of(const HuggingFaceRow& row, std::string_view name) {
  for (const std::string_view end : row.transposed)
    if (name.ends_with(end)) return Transform::transpose;
  return Transform::copy;
}

}  // namespace trireme::model
