// Kinds of layers, and models of some layers of another.
// SPDX-License-Identifier: Apache-2.0
#include "plan/kept_layers.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

namespace trireme::plan {
namespace {

// Layers that do the same have the same of all of this.
using Kind = std::tuple<bool, bool, std::int64_t, bool, bool, bool>;

Kind kind_of(const config::RunConfig& config, std::int64_t layer) {
  const model::ModelConfig& m = config.model;
  const bool recomputes = config.recompute.layers == 0 || layer < config.recompute.layers;
  const bool narrow = layer >= config.precision.first_bf16 &&
                      layer < m.layers - config.precision.last_bf16;
  return {m.is_moe(layer), m.is_linear(layer), m.window_of(layer),
          m.turns(layer),  recomputes,         narrow};
}

// Whether a pattern has a number where names have that of a layer.
bool has_number(const std::string& pattern) {
  bool in_word = false;  // behind a letter, as in "fc1"
  for (const char c : pattern) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && !in_word) return true;
    in_word = digit || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  return false;
}

// Whether layers of one kind may be trained otherwise, by their names.
bool differ_by_name(const config::RunConfig& config) {
  const nn::AdapterConfig& adapter = config.adapter.matrices;
  const auto numbered = [](const auto& all, const auto& text_of) {
    return std::any_of(all.begin(), all.end(),
                       [&](const auto& one) { return has_number(text_of(one)); });
  };
  const auto itself = [](const std::string& text) { return text; };
  const auto pattern = [](const auto& one) { return one.pattern; };
  return numbered(config.optimizer.groups, pattern) ||
         numbered(adapter.targets, itself) || numbered(adapter.modules_to_save, itself) ||
         numbered(adapter.ranks, pattern) || numbered(adapter.alphas, pattern);
}

KeptLayers all_of(std::int64_t layers) {
  KeptLayers all;
  all.layers.resize(static_cast<std::size_t>(layers));
  all.place.resize(all.layers.size());
  std::iota(all.layers.begin(), all.layers.end(), std::int64_t{0});
  std::iota(all.place.begin(), all.place.end(), std::size_t{0});
  return all;
}

// How many of `layers`, which ascend, are below an edge.
std::int64_t below(const std::vector<std::int64_t>& layers, std::int64_t edge) {
  return std::lower_bound(layers.begin(), layers.end(), edge) - layers.begin();
}

}  // namespace

KeptLayers ends_and_kinds(const config::RunConfig& config) {
  const std::int64_t last = config.model.layers - 1;
  if (differ_by_name(config)) return all_of(config.model.layers);
  std::map<Kind, std::int64_t> first;  // of the layers between the ends
  for (std::int64_t layer = 1; layer < last; ++layer)
    first.try_emplace(kind_of(config, layer), layer);
  KeptLayers kept;
  kept.layers = {0, std::max<std::int64_t>(last, 0)};
  for (const auto& [kind, layer] : first) kept.layers.push_back(layer);
  if (std::ssize(kept.layers) > last) return all_of(config.model.layers);
  std::sort(kept.layers.begin(), kept.layers.end());
  for (std::int64_t layer = 0; layer <= last; ++layer) {
    const bool end = layer == 0 || layer == last;
    kept.place.push_back(static_cast<std::size_t>(
        below(kept.layers, end ? layer : first.at(kind_of(config, layer)))));
  }
  return kept;
}

std::vector<std::int64_t> in_proportion(const config::RunConfig& config) {
  constexpr std::int64_t wanted = 4;
  const std::int64_t all = config.model.layers;
  if (differ_by_name(config)) return all_of(all).layers;
  std::map<Kind, std::vector<std::int64_t>> kinds;
  for (std::int64_t layer = 0; layer < all; ++layer)
    kinds[kind_of(config, layer)].push_back(layer);
  std::vector<std::int64_t> kept;
  const std::int64_t most = kinds.size() == 1 ? 3 : wanted;
  for (const auto& [kind, layers] : kinds) {
    const std::int64_t own = std::ssize(layers);
    const std::int64_t count = std::max<std::int64_t>(1, (most * own + all / 2) / all);
    for (std::int64_t i = 0; i < std::min(count, own); ++i)
      kept.push_back(layers[static_cast<std::size_t>(i)]);
    if (layers.back() == all - 1) kept.back() = all - 1;
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

void keep_layers(config::RunConfig& config, const std::vector<std::int64_t>& layers) {
  model::ModelConfig& m = config.model;
  if (std::ssize(layers) == m.layers) return;
  const model::ModelConfig whole = m;
  const std::int64_t last_bf16 = whole.layers - config.precision.last_bf16;
  config.precision.last_bf16 = std::ssize(layers) - below(layers, last_bf16);
  config.precision.first_bf16 = below(layers, config.precision.first_bf16);
  config.recompute.layers = below(layers, config.recompute.layers);
  m.layers = std::ssize(layers);
  m.moe.dense_layers = 0;
  m.moe.every = 1;
  m.moe.mlp_layers.clear();
  m.layer_types.clear();
  m.rope_layers.clear();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t layer = layers[i];
    if (whole.has_experts() && !whole.is_moe(layer))
      m.moe.mlp_layers.push_back(static_cast<std::int64_t>(i));
    if (!whole.rope_layers.empty())
      m.rope_layers.push_back(whole.rope_layers[static_cast<std::size_t>(layer)]);
    if (!whole.layer_types.empty())
      m.layer_types.push_back(whole.layer_types[static_cast<std::size_t>(layer)]);
    else if (whole.has_linear())
      m.layer_types.emplace_back(whole.is_linear(layer) ? model::linear_attention
                                                        : model::full_attention);
  }
}

}  // namespace trireme::plan
