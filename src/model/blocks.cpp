// Llama and GPT-2 in the names and shapes of Hugging Face.
// SPDX-License-Identifier: Apache-2.0
#include "model/blocks.hpp"

#include <cmath>

namespace trireme::model {
namespace {

// Output projections start smaller, for the residual stream sums 2 L of them (Radford et
// al., 2019, section 2.3).
double output_deviation(const ModelConfig& m) {
  return m.initializer_range / std::sqrt(2.0 * static_cast<double>(m.layers));
}

nn::BlockConfig llama_block(const ModelConfig& m, std::int64_t layer) {
  const std::string at = "model.layers." + std::to_string(layer) + ".";
  nn::BlockConfig block;
  block.norm1 = {nn::NormKind::rms, m.hidden, m.norm_eps, at + "input_layernorm"};
  block.norm2 = {nn::NormKind::rms, m.hidden, m.norm_eps,
                 at + "post_attention_layernorm"};
  block.attention = {.hidden = m.hidden,
                     .heads = m.heads,
                     .kv_heads = m.kv_heads,
                     .rotary = true,
                     .bias = false,
                     .deviation = m.initializer_range,
                     .output_deviation = output_deviation(m),
                     .q = at + "self_attn.q_proj",
                     .k = at + "self_attn.k_proj",
                     .v = at + "self_attn.v_proj",
                     .output = at + "self_attn.o_proj"};
  block.mlp = {.hidden = m.hidden,
               .feed_forward = m.feed_forward,
               .activation = nn::Activation::swiglu,
               .bias = false,
               .deviation = m.initializer_range,
               .output_deviation = output_deviation(m),
               .gate = at + "mlp.gate_proj",
               .up = at + "mlp.up_proj",
               .down = at + "mlp.down_proj"};
  return block;
}

nn::BlockConfig gpt2_block(const ModelConfig& m, std::int64_t layer) {
  const std::string at = "transformer.h." + std::to_string(layer) + ".";
  nn::BlockConfig block;
  block.norm1 = {nn::NormKind::layer, m.hidden, m.norm_eps, at + "ln_1"};
  block.norm2 = {nn::NormKind::layer, m.hidden, m.norm_eps, at + "ln_2"};
  block.attention = {.hidden = m.hidden,
                     .heads = m.heads,
                     .kv_heads = m.heads,
                     .rotary = false,
                     .bias = true,
                     .deviation = m.initializer_range,
                     .output_deviation = output_deviation(m),
                     .q = at + "attn.c_attn",
                     .k = "",
                     .v = "",
                     .output = at + "attn.c_proj"};
  block.mlp = {.hidden = m.hidden,
               .feed_forward = m.feed_forward,
               .activation = nn::Activation::gelu,
               .bias = true,
               .deviation = m.initializer_range,
               .output_deviation = output_deviation(m),
               .gate = "",
               .up = at + "mlp.c_fc",
               .down = at + "mlp.c_proj"};
  return block;
}

}  // namespace

nn::EmbeddingConfig embedding_config(const ModelConfig& m) {
  const bool llama = m.architecture == Architecture::llama;
  return {.vocabulary = m.vocabulary,
          .hidden = m.hidden,
          .positions = llama ? 0 : m.sequence,
          .deviation = m.initializer_range,
          .tokens = llama ? "model.embed_tokens" : "transformer.wte",
          .position = llama ? "" : "transformer.wpe"};
}

nn::BlockConfig block_config(const ModelConfig& m, std::int64_t layer) {
  return m.architecture == Architecture::llama ? llama_block(m, layer)
                                               : gpt2_block(m, layer);
}

nn::HeadConfig head_config(const ModelConfig& m, double z_loss) {
  const bool llama = m.architecture == Architecture::llama;
  return {.norm = {llama ? nn::NormKind::rms : nn::NormKind::layer, m.hidden, m.norm_eps,
                   llama ? "model.norm" : "transformer.ln_f"},
          .vocabulary = m.vocabulary,
          .hidden = m.hidden,
          .deviation = m.initializer_range,
          .z_loss = z_loss,
          .name = "lm_head"};
}

}  // namespace trireme::model
