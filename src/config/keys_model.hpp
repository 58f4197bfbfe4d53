// Keys of the deck: the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/section.hpp"

namespace trireme::config {

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
      "Activation of feed-forwards and experts; those with \"glu\" in their name have "
      "gates, the others have none and no tensors for them; auto: the architecture's.",
      sets<&RunConfig::model, &model::ModelConfig::mlp,
           &model::FeedForwardSettings::activation>};
  Integer vocabulary{
      *this,
      "vocabulary",
      "",
      "0",
      within(0, 2147483647),
      "Number of tokens; 0: 257 for data.source = \"bytes\", else it must be given.",
      sets<&RunConfig::model, &model::ModelConfig::vocabulary>};
  Integer sequence{*this,
                   "sequence",
                   "tokens",
                   "",
                   within(1, 1 << 27),
                   "Length of a training sequence.",
                   sets<&RunConfig::model, &model::ModelConfig::sequence>};
  Integer window{
      *this,
      "window",
      "tokens",
      "0",
      within(0, 1 << 27),
      "Positions that attention sees, the token's own the last (sliding window); 0: all.",
      sets<&RunConfig::model, &model::ModelConfig::window>};
  Strings layer_types{*this, "layer_types", "[]",
                      "For each layer \"full_attention\", \"sliding_attention\", which "
                      "has the window, or "
                      "\"linear_attention\" (model.linear); empty: all have the window, "
                      "and of qwen3_5 all "
                      "but every fourth are linear.",
                      sets<&RunConfig::model, &model::ModelConfig::layer_types>};
  Boolean attention_bias{
      *this, "attention_bias", "false",
      "Biases on q, k, v and the output of attention, where the architecture leaves them "
      "open (llama, qwen3, qwen3_moe, gemma, smollm3; of deepseek_v2 and deepseek_v3 on "
      "what makes the small vectors, and the output).",
      sets<&RunConfig::model, &model::ModelConfig::attention,
           &model::AttentionSettings::bias>};
  Real rope_theta{*this,
                  "rope_theta",
                  "",
                  "10000.0",
                  above(0, 1e12),
                  "Base of the rotary positions; not for gpt2.",
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
  Real query_scalar{
      *this,
      "query_scalar",
      "",
      "0.0",
      within(0, 1e9),
      "Attention's scores are divided by its root (query_pre_attn_scalar of "
      "Gemma); 0: the width of a head.",
      sets<&RunConfig::model, &model::ModelConfig::attention,
           &model::AttentionSettings::query_scalar>};
  Real attention_cap{*this,
                     "attention_cap",
                     "",
                     "0.0",
                     within(0, 1e6),
                     "Attention's scores x become cap tanh(x / cap), as in Gemma 2; 0: "
                     "they stay as they "
                     "are.",
                     sets<&RunConfig::model, &model::ModelConfig::attention,
                          &model::AttentionSettings::cap>};
  Boolean qk_norm{*this, "qk_norm", "false",
                  "RMSNorm of each head's q and k, for glm4_moe; qwen3 always has it.",
                  sets<&RunConfig::model, &model::ModelConfig::attention,
                       &model::AttentionSettings::qk_norm>};
  Boolean mlp_bias{*this, "mlp_bias", "false",
                   "Biases in a feed-forward with gates (gpt2's has biases always).",
                   sets<&RunConfig::model, &model::ModelConfig::mlp,
                        &model::FeedForwardSettings::bias>};
  Boolean parallel_residual{
      *this, "parallel_residual", "true",
      "Whether attention and feed-forward of gpt_neox both read a block's input; false: "
      "the feed-forward reads the sum with attention, as elsewhere.",
      sets<&RunConfig::model, &model::ModelConfig::residual,
           &model::ResidualSettings::parallel>};
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

// What few models of a class change about attention.
struct ModelAttentionKeys : Section {
  constexpr ModelAttentionKeys() : Section("model.attention") {}

  Boolean own_bias{
      *this, "own_bias", "true",
      "Whether attention has the biases that are the architecture's own, where its class "
      "may leave them out (gpt_neox, gpt_oss, qwen2_moe).",
      sets<&RunConfig::model, &model::ModelConfig::attention,
           &model::AttentionSettings::own_bias>};
  Boolean scale_by_layer{
      *this, "scale_by_layer", "false",
      "Whether attention's scores are also divided by the number of their layer, from 1 "
      "(scale_attn_by_inverse_layer_idx of gpt2).",
      sets<&RunConfig::model, &model::ModelConfig::attention,
           &model::AttentionSettings::scale_by_layer>};
};

namespace key {
inline constexpr ModelKeys model;
inline constexpr ModelAttentionKeys model_attention;
}  // namespace key

}  // namespace trireme::config
