// Blocks, embedding and head by the rows of architectures.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "model/blocks.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/philox.hpp"

namespace trireme::model {
namespace {

// Output projections start smaller, for the residual stream sums 2 L of them (Radford et
// al., 2019, section 2.3).
double output_deviation(const ModelConfig& m) {
  return m.initializer_range / std::sqrt(2.0 * static_cast<double>(m.layers));
}

// Names of one layer's tensors; the name of a tensor that is not there stays empty.
class LayerNames {
 public:
  LayerNames(const TensorNames& names, std::int64_t layer)
      : at_(std::string(names.layers) + std::to_string(layer) + ".") {}
  std::string operator()(std::string_view name) const {
    return name.empty() ? std::string() : at_ + std::string(name);
  }

 private:
  std::string at_;
};

// Each use in each layer has random numbers of its own.
nn::DropoutConfig dropout(double rate, const std::string& use) {
  return {rate, hash_name(use + " dropout")};
}

nn::DropoutConfig probability_dropout(const ModelConfig& m, std::int64_t layer) {
  return dropout(m.attention.dropout, format("probabilities {}", layer));
}

nn::NormConfig norm(const ModelConfig& m, const std::string& name) {
  return {m.row().norm, m.hidden, m.norm_eps, m.row().gain_offset, name};
}

// None where it has no name.
std::optional<nn::NormConfig> optional_norm(const ModelConfig& m,
                                            const std::string& name) {
  if (name.empty()) return {};
  return norm(m, name);
}

double score_scale(const ModelConfig& m, std::int64_t layer) {
  const auto& s = m.attention;
  const double width =
      s.query_scalar > 0 ? s.query_scalar : static_cast<double>(m.head_width());
  return 1.0 / std::sqrt(width) / static_cast<double>(s.scale_by_layer ? layer + 1 : 1);
}

nn::AttentionConfig attention(const ModelConfig& m, std::int64_t layer,
                              const LayerNames& at) {
  const ArchitectureRow& row = m.row();
  return {.hidden = m.hidden,
          .heads = m.heads,
          .kv_heads = row.grouped ? m.kv_heads : m.heads,
          .head_width = m.head_width(),
          .rotary = m.turns(layer),
          .neighbours = row.neighbours,
          .window = m.window_of(layer) < m.sequence ? m.window_of(layer) : 0,
          .qkv_bias = (row.qkv_bias && m.attention.own_bias) ||
                      (row.free_qkv_bias && m.attention.bias),
          .output_bias = (row.output_bias && m.attention.own_bias) ||
                         (row.free_output_bias && m.attention.bias),
          .scale = score_scale(m, layer),
          .cap = m.attention.cap,
          .qk_norm = m.attention.qk_norm ? nn::QkNorm::heads : row.qk_norm,
          .head_norms = {m.norm_eps, row.gain_offset},
          .deviation = m.initializer_range,
          .output_deviation = output_deviation(m),
          .q = at(row.names.q),
          .k = at(row.names.k),
          .v = at(row.names.v),
          .output = at(row.names.output),
          .q_norm = at(row.names.q_norm),
          .k_norm = at(row.names.k_norm),
          .query_tensor = row.query_tensor,
          .sinks = at(row.names.sinks),
          .dropout = probability_dropout(m, layer)};
}

nn::LatentAttentionConfig latent_attention(const ModelConfig& m, std::int64_t layer,
                                           const LayerNames& at) {
  const TensorNames& names = m.row().names;
  const bool small = m.attention.latent.query_width > 0;
  return {.hidden = m.hidden,
          .heads = m.heads,
          .query_rank = m.attention.latent.query_width,
          .latent = m.attention.latent.width,
          .head_width = m.head_width(),
          .rotary_width = m.rotary_width(),
          .value_width = m.value_width(),
          .window = m.window_of(layer) < m.sequence ? m.window_of(layer) : 0,
          .scale = m.attention.latent.score_factor /
                   std::sqrt(static_cast<double>(m.head_width())),
          .neighbours = m.row().neighbours && m.attention.latent.neighbours,
          .bias = m.attention.bias,
          .dropout = probability_dropout(m, layer),
          .deviation = m.initializer_range,
          .output_deviation = output_deviation(m),
          .q_down = at(names.latent.q_down),
          .q_norm = at(names.q_norm),
          .q = at(small ? names.latent.q_up : names.q),
          .latent_down = at(names.latent.down),
          .latent_norm = at(names.latent.norm),
          .latent_up = at(names.latent.up),
          .output = at(names.output)};
}

nn::GatedDeltaNetConfig linear_attention_config(const ModelConfig& m,
                                                const LayerNames& at) {
  const LinearNames& names = m.row().names.linear;
  const LinearSettings& s = m.attention.linear;
  return {.hidden = m.hidden,
          .key_heads = s.key_heads,
          .value_heads = s.value_heads,
          .key_width = s.key_width,
          .value_width = s.value_width,
          .taps = s.taps,
          .norm_eps = m.norm_eps,
          .deviation = m.initializer_range,
          .output_deviation = output_deviation(m),
          .qkv = at(names.qkv),
          .z = at(names.z),
          .b = at(names.b),
          .a = at(names.a),
          .conv = at(names.conv),
          .decay = at(names.decay),
          .bias = at(names.bias),
          .norm = at(names.norm),
          .output = at(names.output)};
}

nn::MlpConfig feed_forward(const ModelConfig& m, const LayerNames& at) {
  const ArchitectureRow& row = m.row();
  return {.hidden = m.hidden,
          .feed_forward = m.feed_forward,
          .activation = m.activation(),
          .bias = row.feed_forward_bias || m.mlp.bias,
          .deviation = m.initializer_range,
          .output_deviation = output_deviation(m),
          .gate = at(row.names.gate),
          .up = at(row.names.up),
          .down = at(row.names.down)};
}

nn::MoeConfig moe_config(const ModelConfig& m, const LayerNames& at) {
  const MoeSettings& s = m.moe;
  const TensorNames& names = m.row().names;
  const std::string where = at(names.experts.layer);
  return {.hidden = m.hidden,
          .feed_forward = m.expert_width(),
          .experts = s.experts,
          .top_k = s.top_k,
          .shared_feed_forward = m.shared_width(),
          .activation = m.activation(),
          .router = s.router,
          .normalise = s.normalise,
          .scaling = s.scaling,
          .groups = s.groups,
          .capacity_factor = s.capacity_factor,
          .aux_loss = s.aux_loss,
          .z_loss = s.z_loss,
          .choice_bias = s.choice_bias || s.bias_update_rate > 0,
          .bias_update_rate = s.bias_update_rate,
          .deviation = m.initializer_range,
          .output_deviation = output_deviation(m),
          .router_name = where + "." + std::string(names.experts.router),
          .expert_name = where + ".experts",
          .shared_name = where + "." + std::string(names.experts.shared),
          .shared_gate = names.experts.shared_gate.empty()
                             ? std::string()
                             : where + "." + std::string(names.experts.shared_gate),
          .expert_names = {std::string(names.experts.gate), std::string(names.experts.up),
                           std::string(names.experts.down), m.row().moe_biases},
          .shared_names = {"gate_proj", "up_proj", "down_proj",
                           names.experts.shared_biases && m.mlp.bias}};
}

}  // namespace

Architecture architecture_named(std::string_view name) {
  const auto row =
      std::find_if(architectures.begin(), architectures.end(),
                   [&](const ArchitectureRow& each) { return each.name == name; });
  require(row != architectures.end(), "no architecture '{}'", name);
  return static_cast<Architecture>(row - architectures.begin());
}

std::string architectures_with_experts() {
  std::string names;
  for (const ArchitectureRow& row : architectures)
    if (row.experts) names += format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

nn::EmbeddingConfig embedding_config(const ModelConfig& m) {
  const TensorNames& names = m.row().names;
  return {
      .vocabulary = m.vocabulary,
      .hidden = m.hidden,
      .positions = m.row().positions == Positions::learned ? m.positions() : 0,
      .deviation = m.initializer_range,
      .scale = m.row().scaled_embedding ? std::sqrt(static_cast<double>(m.hidden)) : 1.0,
      .pad_token = m.residual.pad_token,
      .tokens = std::string(names.tokens),
      .position = std::string(names.positions),
      .dropout = dropout(m.residual.embedding_dropout, "embedding")};
}

nn::BlockConfig block_config(const ModelConfig& m, std::int64_t layer) {
  const TensorNames& names = m.row().names;
  const LayerNames at(names, layer);
  nn::BlockConfig block;
  block.norm1 = optional_norm(m, at(names.attention_norm));
  block.norm2 = optional_norm(m, at(names.feed_forward_norm));
  block.output_norm1 = optional_norm(m, at(names.attention_output_norm));
  block.output_norm2 = optional_norm(m, at(names.feed_forward_output_norm));
  block.dropout1 = dropout(m.residual.dropout, format("attention {}", layer));
  block.dropout2 = dropout(m.residual.dropout, format("feed-forward {}", layer));
  block.parallel = m.row().parallel_halves && m.residual.parallel;
  if (m.row().latent)
    block.latent = latent_attention(m, layer, at);
  else if (m.is_linear(layer))
    block.linear = linear_attention_config(m, at);
  else
    block.attention = attention(m, layer, at);
  block.mlp = feed_forward(m, at);
  if (m.is_moe(layer)) block.moe = moe_config(m, at);
  return block;
}

nn::HeadConfig head_config(const ModelConfig& m, double z_loss) {
  const TensorNames& names = m.row().names;
  return {.norm = norm(m, std::string(names.final_norm)),
          .vocabulary = m.vocabulary,
          .hidden = m.hidden,
          .deviation = m.initializer_range,
          .z_loss = z_loss,
          .logit_cap = m.logit_cap,
          .name = std::string(names.head)};
}

}  // namespace trireme::model
