// What a Hugging Face folder of one class of transformers is.
// SPDX-License-Identifier: Apache-2.0
// Its keys, their defaults, and how tensors lie in it.
//
// The names of tensors are those of the architecture's row (architecture_row.hpp). What
// else import, export and `inspect` know of a class is its row here, in the header of its
// family. Defaults are those of the classes of transformers 5.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/router.hpp"
#include "model/architecture_row.hpp"

namespace trireme::model {

// How a tensor in a folder becomes the model's: each its own inverse.
// unit_dim: a matrix [C, W] lies there as [C, 1, W].
enum class Transform : std::uint8_t { copy, transpose, unit_dim };

// A tensor of each expert that lies in one of all experts, whose last dim is its rows:
// `part` [R, C] of expert e is whole[e, :, first + step i], i < R, transposed, and a bias
// [R] is whole[e, first + step i]. With by_rows it is whole[e, first R + i, :], one of
// `step` such parts.
struct StackedPart {
  std::string_view part, whole;  // names behind those of the experts and of one expert
  std::int64_t step = 1, first = 0;
  bool by_rows = false;
};

// Keys of config.json about experts; "": the class has none.
struct ExpertKeys {
  std::string_view experts{}, top_k{};
  std::string_view experts_too{};  // another name of `experts`, which some versions write
  // Width of an expert, where it is not that of feed-forwards; whether the weights of a
  // token's experts are made to sum to 1, and their factor.
  std::string_view feed_forward{}, normalise{}, scaling{};
  // How many experts all tokens use, or their width; groups of experts, and how many of
  // them a token uses.
  std::string_view shared_experts{}, shared_feed_forward{}, groups{}, groups_used{};
  std::string_view group_method{};  // "greedy" there: groups have no meaning
  // Layers without experts: the first, by their numbers, all but every so many-th.
  std::string_view dense_layers{}, mlp_layers{}, every{};
};

// Of classes whose experts have tensors of their own: in folders that transformers 5
// writes as its classes hold them (save_original_format=False), in which gates lie before
// what they weigh.
inline constexpr std::array experts_as_held = {
    StackedPart{"gate_proj.weight", "gate_up_proj", 2, 0, true},
    StackedPart{"up_proj.weight", "gate_up_proj", 2, 1, true},
    StackedPart{"down_proj.weight", "down_proj", 1, 0, true}};

// Experts in stacks that are read and never written, in layers of that name where it is
// another.
struct StacksToo {
  std::span<const StackedPart> parts{};
  std::string_view layer{};
};

// Another name of a key, which the class reads as well (attribute_map).
struct KeyAlias {
  std::string_view alias, key;
};

// Keys of config.json; "": the class has none.
struct ConfigKeys {
  std::string_view layers, hidden, heads, kv_heads, head_width, feed_forward, positions;
  std::string_view norm_eps, activation;
  std::string_view attention_bias{};
  std::string_view mlp_bias{}, qk_norm{}, logit_cap{}, attention_cap{}, query_scalar{};
  std::string_view parallel_residual{};
  // Flags: whether scores are divided by the root of a head's width, and by the number of
  // their layer.
  std::string_view scale_by_width{}, scale_by_layer{};
  ExpertKeys moe{};
  // Of latent attention.
  std::string_view latent{}, query_latent{}, unturned_width{}, rotary_width{};
  std::string_view value_width{}, neighbours{};
};

// What an absent key of experts means.
struct ExpertDefaults {
  std::int64_t experts = 8, top_k = 2, feed_forward = 0;
  std::int64_t shared_experts = 0, shared_feed_forward = 0, groups = 1, groups_used = 1;
  std::int64_t dense_layers = 0;
  double scaling = 1.0;
  bool normalise = false;
};

// What an absent key means. 0 of kv_heads: as many as heads; of head_width: hidden /
// heads; of feed_forward: 4 hidden.
struct ConfigDefaults {
  std::int64_t vocabulary, layers, hidden, heads, kv_heads, head_width, feed_forward;
  std::int64_t positions, window;
  double norm_eps, rope_theta;
  bool tied;
  ExpertDefaults moe{};
  std::int64_t latent = 0, query_latent = 0, unturned_width = 0, rotary_width = 0;
  std::int64_t value_width = 0;
  double logit_cap = 0, attention_cap = 0, query_scalar = 0;
  std::int64_t pad_token = -1;  // -1: none
};

// How a window over the last positions is asked for: by sliding_window, and ...
struct WindowRule {
  bool exists = false;
  bool by_flag = false;     // only with use_sliding_window
  bool by_layer = false;    // in the layers that layer_types names, else in all, ...
  bool from_layer = false;  // ... or in those from max_window_layers on, ...
  bool unturned = false;    // ... or in those without rotary positions, ...
  // ... or in all but every so many-th, and with until_layer in those of them that are
  // before max_window_layers.
  std::int64_t full_every = 0;
  bool until_layer = false;
};

// How rotary positions are asked for: by rope_theta and rope_scaling, or in newer files
// by rope_parameters, and ...
struct RopeRule {
  std::string_view theta = "rope_theta";  // the older key
  // The older key of the part of each head that turns, and that part without one; "":
  // heads turn whole.
  std::string_view part{};
  double default_part = 1;
  // no_rope_layers or no_rope_layer_interval name layers that do not turn.
  bool some_layers = false;
  // Layers with a window turn in a way of their own: rope_parameters has two objects, and
  // rope_scaling is of the other layers. The older key of their base, and that base
  // without one.
  bool by_kind = false;
  std::string_view sliding_theta{};
  double default_sliding_theta = 0;
  bool longrope_only = false;  // "su" and "yarn" mean longrope; there is no other scaling
  // mrope_section and mrope_interleaved deal out pairs to three positions, which are one
  // and the same for text.
  bool sections = false;
  // original_max_position_embeddings without that key; 0: max_position_embeddings.
  std::int64_t original = 0;
  // JSON text of rope_scaling without either key; "": there is none.
  std::string_view default_scaling{};
};

// A key that changes the model when it has another value than this JSON text.
struct NeutralKey {
  std::string_view key, value;
};

// How experts are chosen, where a class has one way.
struct RouterRule {
  kernels::RouterScore score = kernels::RouterScore::softmax;
  bool choice_bias = false;
  std::int64_t group_counts = 2;
};

struct HuggingFaceRow {
  std::string_view model_type, class_name;
  std::string_view architecture;     // the name of its row
  std::string_view base;             // the prefix of all tensors but the head's
  std::string_view activation;       // the name of the architecture's, ...
  std::string_view same_activation;  // ... and another that the class reads as that
  ConfigKeys keys;
  ConfigDefaults defaults;
  WindowRule window;
  std::span<const NeutralKey> neutral;
  std::span<const std::string_view> transposed;  // ends of names of [in, out] tensors
  std::span<const std::string_view> buffers;     // ends of names that hold no weights
  // A model_type with other parts than text, whose text_config is of this class: the
  // prefix of its tensors there in place of `base`. Beginnings of names that are no part
  // of the text, or predict further tokens, and are left out.
  std::string_view outer_type{}, outer_base{};
  std::span<const std::string_view> left_out{};
  std::span<const std::string_view> with_unit_dim{};  // ends of names
  RopeRule rope{};
  bool one_activation = false;  // whatever it is called, it is the architecture's
  std::span<const StackedPart>
      stacks{};            // of experts; empty: each has tensors of its own, ...
  StacksToo stacks_too{};  // ... or lies in these
  // Layers after the model's predict further tokens, and are left out.
  bool further_layers = false;
  RouterRule router{};
  bool leaves_padding = true;  // the embedding of pad_token_id, in training
  // Its configuration takes no hidden size that is not a multiple of the heads, whatever
  // their width is.
  bool hidden_of_heads = false;
};

namespace hugging_face {

inline constexpr WindowRule no_window = {};
inline constexpr WindowRule window_in_all = {.exists = true};
inline constexpr WindowRule window_by_flag = {.exists = true, .by_flag = true};
inline constexpr WindowRule window_by_layer = {.exists = true, .by_layer = true};
inline constexpr WindowRule window_from_layer = {
    .exists = true, .by_flag = true, .by_layer = true, .from_layer = true};
inline constexpr WindowRule window_but_every(std::int64_t layers) {
  return {.exists = true, .by_layer = true, .full_every = layers};
}
inline constexpr WindowRule window_alternating = {.exists = true,
                                                  .by_flag = true,
                                                  .by_layer = true,
                                                  .full_every = 2,
                                                  .until_layer = true};

}  // namespace hugging_face
}  // namespace trireme::model
