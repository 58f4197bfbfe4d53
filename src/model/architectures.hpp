// Architectures as rows: what each is made of, and what its tensors are called.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "nn/mlp.hpp"
#include "nn/norm.hpp"

namespace trireme::model {

// In the order of the rows.
enum class Architecture : std::uint8_t {
  llama,
  gpt2,
  mixtral,
  deepseek_moe,
  qwen2,
  qwen3,
  qwen3_moe
};

enum class Positions : std::uint8_t { rotary, learned };

// Names of tensors as Hugging Face has them, without ".weight" and ".bias". Those of a
// layer stand behind `layers`, its number and a dot.
struct TensorNames {
  std::string_view tokens, positions, layers, final_norm, head;
  std::string_view attention_norm, feed_forward_norm;
  // Three tensors, or one fused tensor of all queries, keys and values, which q names.
  std::string_view q, k, v, output, q_norm, k_norm;
  std::string_view gate, up, down;  // gate is used by gated activations only
  // Of an MoE layer: where its tensors lie, and an expert's in their folders.
  std::string_view moe, expert_gate, expert_up, expert_down;
};

struct ArchitectureRow {
  std::string_view name;  // in decks
  std::string_view doc;   // what it is, for the deck reference
  nn::NormKind norm;      // before each half of a block, and before the head
  Positions positions;
  bool grouped;                // several query heads may share a key/value head
  bool qkv_bias, output_bias;  // of attention
  bool qk_norm;                // of each head
  nn::Activation activation;
  bool feed_forward_bias;
  bool experts;  // in place of feed-forwards
  // Whether weights of a token's experts need not sum to 1, and first layers may have
  // none.
  bool free_experts = false;
  bool free_router = false;  // and all else of model.moe (shared experts, sigmoid, bias)
  TensorNames names;
};

namespace names {

inline constexpr TensorNames llama = {.tokens = "model.embed_tokens",
                                      .positions = "",
                                      .layers = "model.layers.",
                                      .final_norm = "model.norm",
                                      .head = "lm_head",
                                      .attention_norm = "input_layernorm",
                                      .feed_forward_norm = "post_attention_layernorm",
                                      .q = "self_attn.q_proj",
                                      .k = "self_attn.k_proj",
                                      .v = "self_attn.v_proj",
                                      .output = "self_attn.o_proj",
                                      .q_norm = "self_attn.q_norm",
                                      .k_norm = "self_attn.k_norm",
                                      .gate = "mlp.gate_proj",
                                      .up = "mlp.up_proj",
                                      .down = "mlp.down_proj",
                                      .moe = "mlp",
                                      .expert_gate = "gate_proj",
                                      .expert_up = "up_proj",
                                      .expert_down = "down_proj"};

inline constexpr TensorNames gpt2 = {.tokens = "transformer.wte",
                                     .positions = "transformer.wpe",
                                     .layers = "transformer.h.",
                                     .final_norm = "transformer.ln_f",
                                     .head = "lm_head",
                                     .attention_norm = "ln_1",
                                     .feed_forward_norm = "ln_2",
                                     .q = "attn.c_attn",
                                     .k = "",
                                     .v = "",
                                     .output = "attn.c_proj",
                                     .q_norm = "",
                                     .k_norm = "",
                                     .gate = "",
                                     .up = "mlp.c_fc",
                                     .down = "mlp.c_proj",
                                     .moe = "",
                                     .expert_gate = "",
                                     .expert_up = "",
                                     .expert_down = ""};

constexpr TensorNames mixtral() {
  TensorNames names = llama;
  names.moe = "block_sparse_moe";
  names.expert_gate = "w1";
  names.expert_up = "w3";
  names.expert_down = "w2";
  return names;
}

}  // namespace names

// Llama's (Touvron et al., 2023); what later ones change.
inline constexpr ArchitectureRow llama_row = {
    .name = "llama",
    .doc = "RMSNorm, rotary positions, SwiGLU",
    .norm = nn::NormKind::rms,
    .positions = Positions::rotary,
    .grouped = true,
    .qkv_bias = false,
    .output_bias = false,
    .qk_norm = false,
    .activation = nn::Activation::swiglu,
    .feed_forward_bias = false,
    .experts = false,
    .names = names::llama,
};

// Radford et al., 2019.
inline constexpr ArchitectureRow gpt2_row = {
    .name = "gpt2",
    .doc = "LayerNorm, learned positions, biases, GELU",
    .norm = nn::NormKind::layer,
    .positions = Positions::learned,
    .grouped = false,
    .qkv_bias = true,
    .output_bias = true,
    .qk_norm = false,
    .activation = nn::Activation::gelu,
    .feed_forward_bias = true,
    .experts = false,
    .names = names::gpt2,
};

// Jiang et al., 2024.
constexpr ArchitectureRow mixtral_row() {
  ArchitectureRow row = llama_row;
  row.name = "mixtral";
  row.doc = "llama with experts (model.moe)";
  row.experts = true;
  row.names = names::mixtral();
  return row;
}

// DeepSeek-AI, 2024.
constexpr ArchitectureRow deepseek_moe_row() {
  ArchitectureRow row = llama_row;
  row.name = "deepseek_moe";
  row.doc = "as mixtral, and shared experts";
  row.experts = true;
  row.free_experts = row.free_router = true;
  return row;
}

// Qwen Team, 2024.
constexpr ArchitectureRow qwen2_row() {
  ArchitectureRow row = llama_row;
  row.name = "qwen2";
  row.doc = "llama with biases on q, k and v";
  row.qkv_bias = true;
  return row;
}

// Qwen Team, 2025.
constexpr ArchitectureRow qwen3_row() {
  ArchitectureRow row = llama_row;
  row.name = "qwen3";
  row.doc = "llama with an RMSNorm of each head's q and k";
  row.qk_norm = true;
  return row;
}

// The same.
constexpr ArchitectureRow qwen3_moe_row() {
  ArchitectureRow row = qwen3_row();
  row.name = "qwen3_moe";
  row.doc = "qwen3 with experts (model.moe)";
  row.experts = row.free_experts = true;
  return row;
}

inline constexpr std::array architectures = {
    llama_row,   gpt2_row,    mixtral_row(),  deepseek_moe_row(),
    qwen2_row(), qwen3_row(), qwen3_moe_row()};

constexpr const ArchitectureRow& row_of(Architecture architecture) {
  return architectures[static_cast<std::size_t>(architecture)];
}
static_assert(row_of(Architecture::deepseek_moe).name == "deepseek_moe");

// The row of this name; throws Error(internal) if there is none.
Architecture architecture_named(std::string_view name);

// Names of the rows that have experts: "mixtral, ...".
std::string architectures_with_experts();

// Writes for the table of deck keys what it says of all rows: "llama|gpt2|...", or with
// `docs` "llama: what it is; gpt2: ...".
template <class Put>
constexpr void list_architectures(bool docs, Put put) {
  bool first = true;
  for (const ArchitectureRow& row : architectures) {
    if (!first) put(std::string_view(docs ? "; " : "|"));
    first = false;
    put(row.name);
    if (docs) put(std::string_view(": ")), put(row.doc);
  }
  if (docs) put(std::string_view("."));
}

template <bool docs>
constexpr auto architectures_text() {
  constexpr std::size_t length = [] {
    std::size_t sum = 0;
    list_architectures(docs, [&](std::string_view piece) { sum += piece.size(); });
    return sum;
  }();
  std::array<char, length> text{};
  std::size_t at = 0;
  list_architectures(docs, [&](std::string_view piece) {
    for (const char c : piece) text[at++] = c;
  });
  return text;
}
template <bool docs>
inline constexpr auto architectures_storage = architectures_text<docs>();

inline constexpr std::string_view architecture_names(architectures_storage<false>.data(),
                                                     architectures_storage<false>.size());
inline constexpr std::string_view architecture_docs(architectures_storage<true>.data(),
                                                    architectures_storage<true>.size());

}  // namespace trireme::model
