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
  // Width of an expert, where it is not that of feed-forwards; whether the weights of a
  // token's experts are made to sum to 1.
  std::string_view expert_feed_forward{}, normalise{};
  std::string_view experts_too{};  // another name of `experts`, which some versions write
};

// What an absent key means. 0 of kv_heads: as many as heads; of head_width: hidden /
// heads; of feed_forward: 4 hidden.
struct ConfigDefaults {
  std::int64_t vocabulary, layers, hidden, heads, kv_heads, head_width, feed_forward;
  std::int64_t positions, window;
  double norm_eps, rope_theta;
  bool tied;
  std::int64_t experts = 8, top_k = 2, expert_feed_forward = 0;
};

// How a window over the last positions is asked for: by sliding_window, and ...
struct WindowRule {
  bool exists = false;
  bool by_flag = false;     // only with use_sliding_window
  bool by_layer = false;    // in the layers that layer_types names, else in all, ...
  bool from_layer = false;  // ... or in those from max_window_layers on
};

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

inline constexpr WindowRule no_window = {};
inline constexpr WindowRule window_in_all = {.exists = true};
inline constexpr WindowRule window_by_flag = {.exists = true, .by_flag = true};
inline constexpr WindowRule window_by_layer = {.exists = true, .by_layer = true};
inline constexpr WindowRule window_from_layer = {
    .exists = true, .by_flag = true, .by_layer = true, .from_layer = true};

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
                                    const ConfigDefaults& defaults,
                                    const WindowRule& window) {
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
                                  mixtral_defaults(), window_in_all);
  row.keys = mixtral_keys();
  row.neutral = mixtral_neutral;
  return row;
}

inline constexpr std::array qwen3_moe_neutral = {NeutralKey{"attention_bias", "false"},
                                                 NeutralKey{"decoder_sparse_step", "1"},
                                                 NeutralKey{"mlp_only_layers", "[]"}};

constexpr HuggingFaceRow qwen3_moe() {
  ConfigDefaults d = qwen_defaults(0);
  d.layers = 24;
  d.hidden = 2048;
  d.kv_heads = 4;
  d.feed_forward = 6144;
  d.experts = 128;
  d.top_k = 8;
  d.expert_feed_forward = 768;
  HuggingFaceRow row = like_llama("qwen3_moe", "Qwen3MoeForCausalLM",
                                  Architecture::qwen3_moe, d, window_by_flag);
  row.keys.experts = "num_experts";
  row.keys.experts_too = "num_local_experts";
  row.keys.top_k = "num_experts_per_tok";
  row.keys.expert_feed_forward = "moe_intermediate_size";
  row.keys.normalise = "norm_topk_prob";
  row.neutral = qwen3_moe_neutral;
  return row;
}

constexpr HuggingFaceRow gpt2() {
  HuggingFaceRow row =
      like_llama("gpt2", "GPT2LMHeadModel", Architecture::gpt2, gpt2_defaults, no_window);
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

// The first row of an architecture that can say its window is the one that is written.
inline constexpr std::array hugging_face_rows = {
    hugging_face::like_llama("llama", "LlamaForCausalLM", Architecture::llama,
                             hugging_face::llama_defaults, hugging_face::no_window),
    hugging_face::like_llama("mistral", "MistralForCausalLM", Architecture::llama,
                             hugging_face::mistral_defaults(),
                             hugging_face::window_in_all),
    hugging_face::like_llama("ministral", "MinistralForCausalLM", Architecture::llama,
                             hugging_face::mistral_defaults(),
                             hugging_face::window_by_layer),
    hugging_face::like_llama("qwen2", "Qwen2ForCausalLM", Architecture::qwen2,
                             hugging_face::qwen_defaults(0),
                             hugging_face::window_from_layer),
    hugging_face::like_llama("qwen3", "Qwen3ForCausalLM", Architecture::qwen3,
                             hugging_face::qwen_defaults(128),
                             hugging_face::window_from_layer),
    hugging_face::mixtral(),
    hugging_face::qwen3_moe(),
    hugging_face::gpt2()};

// How the model's tensor of this name lies in a folder of the family.
constexpr Transform transform_of(const HuggingFaceRow& row, std::string_view name) {
  for (const std::string_view end : row.transposed)
    if (name.ends_with(end)) return Transform::transpose;
  return Transform::copy;
}

}  // namespace trireme::model
