// Parameters and FLOPs, counted on the model itself without memory.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "model/stage.hpp"

namespace trireme::model {
namespace {

struct Counts {
  std::int64_t all = 0, experts = 0;  // parameters; those of experts alone
  void add(const Param& param) {
    all += param.shape.elements();
    if (param.expert) experts += param.shape.elements();
  }
  void add(const Counts& more, std::int64_t times) {
    all += more.all * times;
    experts += more.experts * times;
  }
};

Stage on_meta(const ModelConfig& m, Range blocks, bool with_both) {
  const StageConfig config{
      .model = m, .blocks = blocks, .first = with_both, .last = with_both};
  return Stage(config, parallel::TensorRegion::whole(), Device::meta());
}

// Of the blocks: those of one kind are alike, and one of each kind is built.
Counts count_blocks(const ModelConfig& m) {
  std::array<std::int64_t, 4> layers{}, example{};
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    const auto kind =
        static_cast<std::size_t>(m.is_moe(layer)) + (m.is_linear(layer) ? 2 : 0);
    example[kind] = layer;
    ++layers[kind];
  }
  Counts sum;
  for (std::size_t kind = 0; kind < layers.size(); ++kind) {
    if (layers[kind] == 0) continue;
    Counts block;
    Stage stage = on_meta(m, {example[kind], example[kind] + 1}, false);
    for (const Param* param : stage.parameters()) block.add(*param);
    sum.add(block, layers[kind]);
  }
  return sum;
}

// Of the embedding with its positions, and of the head with its norm; a tied table is
// in both.
struct EmbeddingAndHead {
  Counts embedding, head;
};

EmbeddingAndHead count_embedding_and_head(const ModelConfig& m) {
  Stage stage = on_meta(m, {}, true);
  const std::vector<ParamModule> modules = stage.modules();
  EmbeddingAndHead both;
  for (const Param* param : modules.front().params) both.embedding.add(*param);
  for (const Param* param : modules.back().params) both.head.add(*param);
  return both;
}

}  // namespace

std::int64_t parameter_count(const ModelConfig& m) {
  const EmbeddingAndHead both = count_embedding_and_head(m);
  const std::int64_t twice = m.tie_embeddings ? m.vocabulary * m.hidden : 0;
  return count_blocks(m).all + both.embedding.all + both.head.all - twice;
}

std::int64_t active_matrix_parameter_count(const ModelConfig& m) {
  const Counts blocks = count_blocks(m);
  const std::int64_t used =
      m.has_experts() ? blocks.experts / m.moe.experts * m.moe.top_k : 0;
  return blocks.all - blocks.experts + used + count_embedding_and_head(m).head.all;
}

namespace {

// Twice the keys that a query of this layer sees in the mean: the whole sequence, or for
// a window w of S positions 2 w - w^2 / S.
double seen_twice(const ModelConfig& m, std::int64_t layer) {
  const auto S = static_cast<double>(m.sequence),
             w = static_cast<double>(m.window_of(layer));
  return w == 0 || w >= S ? S : 2 * w - w * w / S;
}

// Numbers in the states of a layer with linear attention. Row by row each is met by a
// key, a correction and a query, 6 FLOPs, and twice as many backward.
double state_elements(const ModelConfig& m) {
  const LinearSettings& linear = m.attention.linear;
  return static_cast<double>(linear.value_heads * linear.key_width) *
         static_cast<double>(linear.value_width);
}

}  // namespace

FlopsPerToken flops_per_token(const ModelConfig& m) {
  const auto N = static_cast<double>(active_matrix_parameter_count(m));
  double seen = 0;
  std::int64_t recurrent = 0;
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    if (m.is_linear(layer))
      ++recurrent;
    else
      seen += seen_twice(m, layer);
  }
  // The mean width of a head's two products: of queries by keys, of scores by values.
  const double width = static_cast<double>(m.head_width() + m.value_width()) / 2;
  const double attention = static_cast<double>(m.heads) * width * seen;
  const double linear = 18.0 * static_cast<double>(recurrent) * state_elements(m);
  return {6.0 * N + linear + 12.0 * attention, 6.0 * N + linear + 6.0 * attention};
}

}  // namespace trireme::model
