// Sizes and FLOPs of a model from its configuration alone.
// SPDX-License-Identifier: Apache-2.0
#include "model/stage.hpp"

namespace trireme::model {
namespace {

std::int64_t block_parameters(const ModelConfig& m) {
  const std::int64_t D = m.hidden, F = m.feed_forward, kv = m.kv_heads * m.head_width();
  if (m.architecture == Architecture::llama)
    return D * (2 * D + 2 * kv) + 3 * D * F + 2 * D;
  const std::int64_t matrices = 4 * D * D + 2 * D * F, biases = 5 * D + F, norms = 4 * D;
  return matrices + biases + norms;
}

std::int64_t final_norm(const ModelConfig& m) {
  return m.architecture == Architecture::llama ? m.hidden : 2 * m.hidden;
}

}  // namespace

std::int64_t parameter_count(const ModelConfig& m) {
  const std::int64_t table = m.vocabulary * m.hidden;
  const std::int64_t positions =
      m.architecture == Architecture::gpt2 ? m.sequence * m.hidden : 0;
  return m.layers * block_parameters(m) + final_norm(m) + positions +
         (m.tie_embeddings ? table : 2 * table);
}

std::int64_t matrix_parameter_count(const ModelConfig& m) {
  return m.layers * block_parameters(m) + final_norm(m) + m.vocabulary * m.hidden;
}

FlopsPerToken flops_per_token(const ModelConfig& m) {
  const auto N = static_cast<double>(matrix_parameter_count(m));
  const auto LDS = static_cast<double>(m.layers) * static_cast<double>(m.hidden) *
                   static_cast<double>(m.sequence);
  return {6.0 * N + 12.0 * LDS, 6.0 * N + 6.0 * LDS};
}

}  // namespace trireme::model
