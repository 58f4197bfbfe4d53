// Sizes and FLOPs of a model from its configuration alone.
// SPDX-License-Identifier: Apache-2.0
#include "model/stage.hpp"

namespace trireme::model {
namespace {

// Of a block with an ordinary feed-forward.
std::int64_t dense_block_parameters(const ModelConfig& m) {
  const std::int64_t D = m.hidden, F = m.feed_forward, kv = m.kv_heads * m.head_width();
  if (m.is_llama_like()) return D * (2 * D + 2 * kv) + 3 * D * F + 2 * D;
  const std::int64_t matrices = 4 * D * D + 2 * D * F, biases = 5 * D + F, norms = 4 * D;
  return matrices + biases + norms;
}

// Of all blocks, where `experts` of each mixture are counted. The bias of the choice is
// no parameter: it has no gradient.
std::int64_t block_parameters(const ModelConfig& m, std::int64_t experts) {
  const std::int64_t dense = dense_block_parameters(m), D = m.hidden;
  const std::int64_t mixture =
      dense - 3 * D * m.feed_forward + m.moe.experts * D +
      (experts + m.moe.shared_experts) * 3 * D * m.expert_width();
  std::int64_t sum = 0;
  for (std::int64_t layer = 0; layer < m.layers; ++layer)
    sum += m.is_mixture(layer) ? mixture : dense;
  return sum;
}

std::int64_t final_norm(const ModelConfig& m) {
  return m.is_llama_like() ? m.hidden : 2 * m.hidden;
}

}  // namespace

std::int64_t parameter_count(const ModelConfig& m) {
  const std::int64_t table = m.vocabulary * m.hidden;
  const std::int64_t positions =
      m.architecture == Architecture::gpt2 ? m.sequence * m.hidden : 0;
  return block_parameters(m, m.moe.experts) + final_norm(m) + positions +
         (m.tie_embeddings ? table : 2 * table);
}

std::int64_t matrix_parameter_count(const ModelConfig& m) {
  return block_parameters(m, m.moe.experts) + final_norm(m) + m.vocabulary * m.hidden;
}

std::int64_t active_matrix_parameter_count(const ModelConfig& m) {
  return block_parameters(m, m.moe.top_k) + final_norm(m) + m.vocabulary * m.hidden;
}

FlopsPerToken flops_per_token(const ModelConfig& m) {
  const auto N = static_cast<double>(active_matrix_parameter_count(m));
  const auto LDS = static_cast<double>(m.layers) * static_cast<double>(m.hidden) *
                   static_cast<double>(m.sequence);
  return {6.0 * N + 12.0 * LDS, 6.0 * N + 6.0 * LDS};
}

}  // namespace trireme::model
