// What an architecture is made of, and what its tensors are called.
// SPDX-License-Identifier: Apache-2.0
// The rows are in families/; architectures.hpp has the table of them.
#pragma once

#include <cstdint>
#include <string_view>

#include "nn/attention_config.hpp"
#include "nn/mlp.hpp"
#include "nn/norm.hpp"

namespace trireme::model {

enum class Positions : std::uint8_t { rotary, learned };

// Names of the tensors of latent attention: of the small query, of the small vector of
// keys and values, of its norm, and of what makes keys and values of it. The norm of the
// small query is TensorNames::q_norm.
struct LatentNames {
  std::string_view q_down{}, q_up{}, down{}, norm{}, up{};
};

// Names of the tensors of linear attention (nn::GatedDeltaNet); empty: there is none.
struct LinearNames {
  std::string_view qkv{}, z{}, b{}, a{}, conv{}, decay{}, bias{}, norm{}, output{};
  constexpr bool exist() const { return !qkv.empty(); }
};

// Names of an MoE layer: where its tensors lie, an expert's in their folders, of the
// router, of the expert that all tokens use, and of what decides how much of it; empty:
// there is none. shared_biases: model.mlp_bias is of that expert, too.
struct ExpertNames {
  std::string_view layer{}, gate{}, up{}, down{};
  std::string_view router = "gate", shared{}, shared_gate{};
  bool shared_biases = false;
};

// Names of tensors as Hugging Face has them, without ".weight" and ".bias". Those of a
// layer stand behind `layers`, its number and a dot.
// A module that transformers 5 calls otherwise once it is loaded. Adapters name it so.
struct RenamedModule {
  std::string_view in_files, in_memory;  // empty: there is none
};

struct TensorNames {
  std::string_view tokens, positions, layers, final_norm, head;
  // Norms of both halves of a block: of their inputs, and of their outputs before they
  // join the residual stream. Empty: there is none.
  std::string_view attention_norm, feed_forward_norm;
  std::string_view attention_output_norm{}, feed_forward_output_norm{};
  // Three tensors, or one fused tensor of all queries, keys and values, which q names.
  std::string_view q, k, v, output, q_norm, k_norm;
  std::string_view sinks{};  // of attention; empty: there are none
  LatentNames latent{};
  LinearNames linear{};  // of layers whose attention is that
  // gate is used by gated activations only; the name of up: one tensor, gate's rows
  // first.
  std::string_view gate, up, down;
  ExpertNames experts{};
  RenamedModule renamed{};
};

struct ArchitectureRow {
  std::string_view name;  // in decks
  std::string_view doc;   // what it is, for the deck reference
  nn::NormKind norm;      // of blocks, and before the head
  Positions positions;
  bool grouped;                // several query heads may share a key/value head
  bool qkv_bias, output_bias;  // of attention, always
  nn::QkNorm qk_norm;          // always
  nn::Activation activation;
  bool feed_forward_bias;
  bool experts;  // in place of feed-forwards
  // Whether weights of a token's experts need not sum to 1, and first layers may have
  // none.
  bool free_experts = false;
  bool free_router = false;  // and all else of model.moe (shared experts, sigmoid, bias)
  bool moe_biases = false;   // of routers' logits and of the experts' projections
  // Which biases of attention model.attention_bias adds.
  bool free_qkv_bias = false, free_output_bias = false;
  bool free_own_bias = false;  // qkv_bias and output_bias: model.attention.own_bias
  bool neighbours = false;     // turn as pairs of neighbours (kernels::RotaryHeads)
  bool free_qk_norm = false;   // only with model.qk_norm
  nn::QueryTensor query_tensor = nn::QueryTensor::plain;  // what else is in it
  bool latent = false;  // attention is nn::LatentAttention
  // Attention and feed-forward both read a block's input, unless a model says otherwise.
  bool parallel_halves = false;
  double gain_offset = 0;         // norms multiply by this + weight
  bool scaled_embedding = false;  // by the root of the width
  TensorNames names;
};

}  // namespace trireme::model
