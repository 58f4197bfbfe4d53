// Keys of the deck: the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

// A setting of MoE layers.
template <auto member>
inline constexpr auto of_moe = sets<&RunConfig::model, &model::ModelConfig::moe, member>;

// The words of model.architecture: the rows of the table of architectures.
constexpr auto architecture_words() {
  std::array<io::Word<model::Architecture>, model::architectures.size()> words{};
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = {model::architectures[i].name, static_cast<model::Architecture>(i)};
  return words;
}
inline constexpr auto architecture_words_storage = architecture_words();

// The words of model.activation: the rows of the table of activations.
constexpr auto activation_words() {
  std::array<io::Word<std::optional<nn::Activation>>, kernels::activations.size() + 1>
      words{};
  words[0] = {"auto", std::nullopt};
  for (std::size_t i = 0; i < kernels::activations.size(); ++i)
    words[i + 1] = {kernels::activations[i].name, static_cast<nn::Activation>(i)};
  return words;
}
inline constexpr auto activation_words_storage = activation_words();

struct ModelKeys : Section {
  constexpr ModelKeys() : Section("model") {}

  Choice<model::Architecture> architecture{
      *this,
      "architecture",
      "\"llama\"",
      std::span<const io::Word<model::Architecture>>(architecture_words_storage),
      model::architecture_docs,
      sets<&RunConfig::model, &model::ModelConfig::architecture>};
  Integer layers{*this,
                 "layers",
                 "",
                 "",
                 within(1, 1e5),
                 "Transformer blocks.",
                 sets<&RunConfig::model, &model::ModelConfig::layers>};
  Integer hidden{*this,
                 "hidden",
                 "",
                 "",
                 within(1, 1 << 24),
                 "Width of the model.",
                 sets<&RunConfig::model, &model::ModelConfig::hidden>};
  Integer heads{*this,
                "heads",
                "",
                "",
                within(1, 1 << 20),
                "Attention heads; divides hidden unless model.head_width is given.",
                sets<&RunConfig::model, &model::ModelConfig::heads>};
  Integer kv_heads{
      *this,
      "kv_heads",
      "",
      "0",
      within(0, 1 << 20),
      "Key and value heads (grouped attention); divides heads; 0: as many as heads.",
      sets<&RunConfig::model, &model::ModelConfig::kv_heads>};
  Integer head_width{
      *this,
      "head_width",
      "",
      "0",
      within(0, 1 << 16),
      "Width of a head (head_dim in Hugging Face's configurations); 0: hidden / heads.",
      sets<&RunConfig::model, &model::ModelConfig::own_head_width>};
  Integer feed_forward{
      *this,
      "feed_forward",
      "",
      "0",
      within(0, 1 << 28),
      "Width inside the MLP; 0: 4 hidden, and with gates 8/3 hidden rounded up to a "
      "multiple of 64.",
      sets<&RunConfig::model, &model::ModelConfig::feed_forward>};
  Choice<std::optional<nn::Activation>> activation{
      *this,
      "activation",
      "\"auto\"",
      std::span<const io::Word<std::optional<nn::Activation>>>(activation_words_storage),
      "Activation of feed-forwards and experts; swiglu has gates, the others have none "
      "and no tensors for them; auto: the architecture's.",
      sets<&RunConfig::model, &model::ModelConfig::own_activation>};
  Integer vocabulary{
      *this,
      "vocabulary",
      "",
      "0",
      within(0, 2147483647),
      "Number of tokens; 0: 257 for data.source = \"bytes\", else it must be given.",
      sets<&RunConfig::model, &model::ModelConfig::vocabulary>};
  Integer sequence{
      *this,
      "sequence",
      "tokens",
      "",
      within(1, 1 << 27),
      "Length of a training sequence; for gpt2 also the number of positions.",
      sets<&RunConfig::model, &model::ModelConfig::sequence>};
  Integer window{
      *this,
      "window",
      "tokens",
      "0",
      within(0, 1 << 27),
      "Positions that attention sees, the token's own the last (sliding window); 0: all.",
      sets<&RunConfig::model, &model::ModelConfig::window>};
  Strings layer_types{
      *this, "layer_types", "[]",
      "With a window: for each layer \"sliding_attention\" or \"full_attention\"; empty: "
      "all have the window.",
      sets<&RunConfig::model, &model::ModelConfig::layer_types>};
  Real rope_theta{*this,
                  "rope_theta",
                  "",
                  "10000.0",
                  above(0, 1e12),
                  "Base of the rotary positions; llama only.",
                  sets<&RunConfig::model, &model::ModelConfig::rope_theta>};
  Real norm_eps{*this,
                "norm_eps",
                "",
                "1e-05",
                above(0, 1),
                "Added to the variance in RMSNorm and LayerNorm.",
                sets<&RunConfig::model, &model::ModelConfig::norm_eps>};
  Boolean tie_embeddings{
      *this, "tie_embeddings", "false",
      "Use the embedding as output matrix as well (GPT-2 as published: true).",
      sets<&RunConfig::model, &model::ModelConfig::tie_embeddings>};
  Real initializer_range{*this,
                         "initializer_range",
                         "",
                         "0.02",
                         within(0, 10),
                         "Standard deviation of the initial weights.",
                         sets<&RunConfig::model, &model::ModelConfig::initializer_range>};
  Real logit_cap{*this,
                 "logit_cap",
                 "",
                 "0.0",
                 within(0, 1e6),
                 "Logits x become cap tanh(x / cap), as in Gemma 2; 0: they stay as they "
                 "are.",
                 sets<&RunConfig::model, &model::ModelConfig::logit_cap>};
  Real z_loss{*this,
              "z_loss",
              "",
              "0.0",
              within(0, 1),
              "Weight of the square of log(sum of exp of logits) in the loss; 0: none.",
              sets<&RunConfig::z_loss>};
  String from{
      *this,
      "from",
      "\"\"",
      "",
      "Model whose weights to start from, with a fresh optimizer, at step 0: a Hugging "
      "Face folder or a checkpoint; keys of [model] that the deck leaves out are the "
      "model's, the others must agree with it.",
      sets<&RunConfig::start_from>};
};

// A setting of the scaling of rotary positions.
template <auto member>
inline constexpr auto of_rope =
    sets<&RunConfig::model, &model::ModelConfig::rope_scaling, member>;

struct RopeKeys : Section {
  constexpr RopeKeys() : Section("model.rope") {}

  Choice<kernels::RopeScalingKind> scaling{
      *this,
      "scaling",
      "\"none\"",
      {{"none", kernels::RopeScalingKind::none},
       {"linear", kernels::RopeScalingKind::linear},
       {"llama3", kernels::RopeScalingKind::llama3},
       {"yarn", kernels::RopeScalingKind::yarn}},
      "How rotary positions reach beyond the length that the model was first trained on.",
      of_rope<&kernels::RopeScaling::kind>};
  Real factor{*this,
              "factor",
              "",
              "1.0",
              above(0, 1e6),
              "How many times longer.",
              of_rope<&kernels::RopeScaling::factor>};
  Real low_turns{*this,
                 "low_turns",
                 "",
                 "1.0",
                 above(0, 1e6),
                 "llama3: pairs that turn less often within model.rope.original are "
                 "divided by the factor (low_freq_factor).",
                 of_rope<&kernels::RopeScaling::low>};
  Real high_turns{
      *this,
      "high_turns",
      "",
      "4.0",
      above(0, 1e6),
      "llama3: pairs that turn more often stay as they are (high_freq_factor).",
      of_rope<&kernels::RopeScaling::high>};
  Real original{*this,
                "original",
                "tokens",
                "0.0",
                within(0, 1e9),
                "llama3 and yarn: the length that the model was first trained on "
                "(original_max_position_embeddings).",
                of_rope<&kernels::RopeScaling::original>};
  Real fast_turns{*this,
                  "fast_turns",
                  "",
                  "32.0",
                  above(0, 1e6),
                  "yarn: pairs that turn more often stay as they are (beta_fast).",
                  of_rope<&kernels::RopeScaling::fast>};
  Real slow_turns{
      *this,
      "slow_turns",
      "",
      "1.0",
      above(0, 1e6),
      "yarn: pairs that turn less often are divided by the factor (beta_slow).",
      of_rope<&kernels::RopeScaling::slow>};
  Boolean whole_pairs{*this, "whole_pairs", "true",
                      "yarn: the range between those begins and ends at whole pairs "
                      "(truncate).",
                      of_rope<&kernels::RopeScaling::whole_pairs>};
  Real attention_factor{
      *this,
      "attention_factor",
      "",
      "1.0",
      above(0, 1e3),
      "Factor of cosines and sines; of yarn usually 0.1 ln(factor) + 1.",
      of_rope<&kernels::RopeScaling::attention_factor>};
};

struct MoeKeys : Section {
  constexpr MoeKeys() : Section("model.moe") {}

  Integer experts{
      *this,
      "experts",
      "",
      "0",
      within(0, 1 << 20),
      "Experts of a layer; needed by mixtral, deepseek_moe and qwen3_moe, 0 for others.",
      of_moe<&model::MoeSettings::experts>};
  Integer top_k{*this,
                "top_k",
                "",
                "2",
                within(1, 1 << 20),
                "Experts that a token uses.",
                of_moe<&model::MoeSettings::top_k>};
  Integer shared_experts{*this,
                         "shared_experts",
                         "",
                         "0",
                         within(0, 1 << 16),
                         "Experts that every token uses besides; deepseek_moe only.",
                         of_moe<&model::MoeSettings::shared_experts>};
  Integer expert_feed_forward{*this,
                              "expert_feed_forward",
                              "",
                              "0",
                              within(0, 1 << 28),
                              "Width inside one expert; 0: model.feed_forward.",
                              of_moe<&model::MoeSettings::expert_feed_forward>};
  Integer dense_layers{
      *this,
      "dense_layers",
      "",
      "0",
      within(0, 1e5),
      "First layers that have an ordinary MLP; deepseek_moe and qwen3_moe only.",
      of_moe<&model::MoeSettings::dense_layers>};
  Choice<kernels::RouterScore> router{
      *this,
      "router",
      "\"softmax\"",
      {{"softmax", kernels::RouterScore::softmax},
       {"sigmoid", kernels::RouterScore::sigmoid}},
      "How a router's logits become scores; sigmoid for deepseek_moe only.",
      of_moe<&model::MoeSettings::router>};
  Boolean normalise{*this, "normalise", "true",
                    "Make the weights of a token's experts sum to model.moe.scaling.",
                    of_moe<&model::MoeSettings::normalise>};
  Real scaling{*this,
               "scaling",
               "",
               "1.0",
               above(0, 1e6),
               "Factor of the weights of a token's experts.",
               of_moe<&model::MoeSettings::scaling>};
  Real capacity_factor{
      *this,
      "capacity_factor",
      "",
      "0.0",
      within(0, 1e6),
      "An expert takes at most this times its even share of a sequence's tokens, "
      "later ones pass it by; 0: it takes all.",
      of_moe<&model::MoeSettings::capacity_factor>};
  Real aux_loss{*this,
                "aux_loss",
                "",
                "0.0",
                within(0, 1e3),
                "Weight of the balance loss of each sequence.",
                of_moe<&model::MoeSettings::aux_loss>};
  Real z_loss{*this,
              "z_loss",
              "",
              "0.0",
              within(0, 1e3),
              "Weight of the square of the routers' log-sum-exp.",
              of_moe<&model::MoeSettings::z_loss>};
  Boolean choice_bias{
      *this, "choice_bias", "false",
      "Add a bias to the scores when experts are chosen; deepseek_moe only.",
      of_moe<&model::MoeSettings::choice_bias>};
  Real bias_update_rate{*this,
                        "bias_update_rate",
                        "",
                        "0.0",
                        within(0, 1e3),
                        "How much that bias moves towards an even load after each step.",
                        of_moe<&model::MoeSettings::bias_update_rate>};
};

namespace key {
inline constexpr ModelKeys model;
inline constexpr RopeKeys rope;
inline constexpr MoeKeys moe;
}  // namespace key

}  // namespace trireme::config
