// Llama, GPT-2 and mixtures of experts in the names and shapes of Hugging Face.
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

// What Mixtral and DeepSeek name differently.
nn::MoeConfig mixture(const ModelConfig& m) {
  const MoeSettings& s = m.moe;
  return {.hidden = m.hidden,
          .feed_forward = m.expert_width(),
          .experts = s.experts,
          .top_k = s.top_k,
          .shared_feed_forward = s.shared_experts * m.expert_width(),
          .router = s.router == Router::softmax ? kernels::RouterScore::softmax
                                                : kernels::RouterScore::sigmoid,
          .normalise = s.normalise,
          .scaling = s.scaling,
          .capacity_factor = s.capacity_factor,
          .aux_loss = s.aux_loss,
          .z_loss = s.z_loss,
          .choice_bias = s.choice_bias || s.bias_update_rate > 0,
          .bias_update_rate = s.bias_update_rate,
          .deviation = m.initializer_range,
          .output_deviation = output_deviation(m),
          .router_name = "",
          .expert_name = "",
          .shared_name = "",
          .expert_names = {},
          .shared_names = {}};
}

nn::BlockConfig mixture_block(const ModelConfig& m, std::int64_t layer) {
  nn::BlockConfig block = llama_block(m, layer);
  if (!m.is_mixture(layer)) return block;
  const std::string at = "model.layers." + std::to_string(layer) + ".";
  const bool mixtral = m.architecture == Architecture::mixtral;
  const std::string where = at + (mixtral ? "block_sparse_moe" : "mlp");
  nn::MoeConfig& moe = block.moe.emplace(mixture(m));
  moe.router_name = where + ".gate";
  moe.expert_name = where + ".experts";
  moe.expert_names = mixtral ? nn::MoeConfig::Names{"w1", "w3", "w2"}
                             : nn::MoeConfig::Names{"gate_proj", "up_proj", "down_proj"};
  moe.shared_name = where + ".shared_experts";
  moe.shared_names = {"gate_proj", "up_proj", "down_proj"};
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
  const bool llama = m.is_llama_like();
  return {.vocabulary = m.vocabulary,
          .hidden = m.hidden,
          .positions = llama ? 0 : m.sequence,
          .deviation = m.initializer_range,
          .tokens = llama ? "model.embed_tokens" : "transformer.wte",
          .position = llama ? "" : "transformer.wpe"};
}

nn::BlockConfig block_config(const ModelConfig& m, std::int64_t layer) {
  switch (m.architecture) {
    case Architecture::llama: return llama_block(m, layer);
    case Architecture::gpt2: return gpt2_block(m, layer);
    case Architecture::mixtral:
    case Architecture::deepseek_moe: return mixture_block(m, layer);
  }
  fail(Status::internal, "an architecture without blocks");
}

nn::HeadConfig head_config(const ModelConfig& m, double z_loss) {
  const bool llama = m.is_llama_like();
  return {.norm = {llama ? nn::NormKind::rms : nn::NormKind::layer, m.hidden, m.norm_eps,
                   llama ? "model.norm" : "transformer.ln_f"},
          .vocabulary = m.vocabulary,
          .hidden = m.hidden,
          .deviation = m.initializer_range,
          .z_loss = z_loss,
          .name = "lm_head"};
}

}  // namespace trireme::model
