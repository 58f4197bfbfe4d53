// Parameters and FLOPs, counted on the model itself without memory.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "model/stage.hpp"

namespace trireme::model {
namespace {

struct Counts {
  std::int64_t all = 0;  // parameters
  double flops = 0,
         expert_flops = 0;  // on a token; of all experts, as if it met them all
  void add(const Param& param) {
    const std::int64_t elements = param.shape.elements();
    // Forward, gradient of the input, and of the weights where these are trained.
    const double work = (param.frozen ? 4.0 : 6.0) * static_cast<double>(elements);
    all += elements;
    flops += work;
    if (param.expert) expert_flops += work;
  }
  void add(const Counts& more, std::int64_t times) {
    all += more.all * times;
    flops += more.flops * static_cast<double>(times);
    expert_flops += more.expert_flops * static_cast<double>(times);
  }
};

Stage on_meta(const ModelConfig& m, const Trained& trained, Range blocks,
              bool with_both) {
  const StageConfig config{.model = m,
                           .blocks = blocks,
                           .first = with_both,
                           .last = with_both,
                           .adapter = trained.adapter};
  return Stage(config, parallel::TensorRegion::whole(), Device::meta());
}

void add(Counts& sum, const std::vector<Param*>& params, const Trained& trained) {
  for (Param* param : params) {
    if (trained.freeze) trained.freeze(*param);
    sum.add(*param);
  }
}

// Of the blocks: those of one kind are alike, and one of each kind is built, unless some
// parameters are frozen by the names of their layers.
Counts count_blocks(const ModelConfig& m, const Trained& trained = {}) {
  Counts sum;
  const auto add_layer = [&](std::int64_t layer, std::int64_t times) {
    Counts block;
    Stage stage = on_meta(m, trained, {layer, layer + 1}, false);
    add(block, stage.parameters(), trained);
    sum.add(block, times);
  };
  if (trained.freeze) {
    for (std::int64_t layer = 0; layer < m.layers; ++layer) add_layer(layer, 1);
    return sum;
  }
  std::array<std::int64_t, 4> layers{}, example{};
  for (std::int64_t layer = 0; layer < m.layers; ++layer) {
    const auto kind =
        static_cast<std::size_t>(m.is_moe(layer)) + (m.is_linear(layer) ? 2 : 0);
    example[kind] = layer;
    ++layers[kind];
  }
  for (std::size_t kind = 0; kind < layers.size(); ++kind)
    if (layers[kind] > 0) add_layer(example[kind], layers[kind]);
  return sum;
}

// Of the embedding with its positions, and of the head with its norm; a tied table is
// in both.
struct EmbeddingAndHead {
  Counts embedding, head;
};

EmbeddingAndHead count_embedding_and_head(const ModelConfig& m,
                                          const Trained& trained = {}) {
  Stage stage = on_meta(m, trained, {}, true);
  const std::vector<ParamModule> modules = stage.modules();
  EmbeddingAndHead both;
  add(both.embedding, modules.front().params, trained);
  add(both.head, modules.back().params, trained);
  return both;
}

}  // namespace

std::int64_t parameter_count(const ModelConfig& m) {
  const EmbeddingAndHead both = count_embedding_and_head(m);
  const std::int64_t twice = m.tie_embeddings ? m.vocabulary * m.hidden : 0;
  return count_blocks(m).all + both.embedding.all + both.head.all - twice;
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

FlopsPerToken flops_per_token(const ModelConfig& m, const Trained& trained) {
  const Counts blocks = count_blocks(m, trained);
  const double used = m.has_experts()
                          ? blocks.expert_flops / static_cast<double>(m.moe.experts) *
                                static_cast<double>(m.moe.top_k)
                          : 0;
  const double matrices = blocks.flops - blocks.expert_flops + used +
                          count_embedding_and_head(m, trained).head.flops;
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
  return {matrices + linear + 12.0 * attention, matrices + linear + 6.0 * attention};
}

}  // namespace trireme::model
