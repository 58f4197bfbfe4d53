// BlockCache: its tensors, and what a block takes.
// SPDX-License-Identifier: Apache-2.0
#include "infer/block_cache.hpp"

#include <algorithm>

#include "kernels/elementwise.hpp"

namespace trireme::infer {
namespace {

std::size_t group_of(const std::vector<std::int64_t>& windows, std::int64_t window) {
  return static_cast<std::size_t>(std::find(windows.begin(), windows.end(), window) -
                                  windows.begin());
}

}  // namespace

std::vector<std::int64_t> cache_windows(const model::ModelConfig& model) {
  std::vector<std::int64_t> windows;
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    if (!model.is_linear(layer)) windows.push_back(model.window_of(layer));
  std::sort(windows.begin(), windows.end());
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return windows;
}

StateShapes state_shapes(const LoadedModel& model) {
  const auto& linear = model.config().attention.linear;
  const std::int64_t keys = model.region().part(linear.key_heads).count(),
                     values = keys * (linear.value_heads / linear.key_heads);
  return {{linear.taps - 1, 2 * keys * linear.key_width + values * linear.value_width},
          {values, linear.key_width * linear.value_width}};
}

CacheRows cache_rows(const LoadedModel& model) {
  const auto& m = model.config();
  if (m.row().latent) return {m.attention.latent.width + m.rotary_width(), 1, true};
  const Range heads = model.region().part(m.heads);
  const std::int64_t queries = m.heads / m.kv_heads;
  const std::int64_t here = (heads.end - 1) / queries + 1 - heads.begin / queries;
  return {here * m.head_width(), here, false};
}

std::vector<std::int64_t> block_bytes(const LoadedModel& model, CacheType type,
                                      std::int64_t positions) {
  const CacheRows rows = cache_rows(model);
  const std::vector<std::int64_t> windows = cache_windows(model.config());
  const auto element = static_cast<std::int64_t>(size_of(type.type));
  const std::int64_t row = rows.width * element + (type.codes() ? rows.heads * 4 : 0);
  std::vector<std::int64_t> bytes(windows.size(), 0);
  const Range layers = model.stage().config().blocks;
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer)
    if (!model.config().is_linear(layer))
      bytes[group_of(windows, model.config().window_of(layer))] +=
          positions * row * (rows.values_are_keys ? 1 : 2);
  return bytes;
}

BlockCache::BlockCache(const LoadedModel& model, CacheType type, std::int64_t positions,
                       const std::vector<CacheGroup>& groups, std::int64_t texts)
    : positions_(positions), device_(model.device()) {
  const CacheRows rows = cache_rows(model);
  const std::vector<std::int64_t> windows = cache_windows(model.config());
  const Range blocks = model.stage().config().blocks;
  for (std::int64_t number = blocks.begin; number < blocks.end; ++number) {
    if (model.config().is_linear(number)) {
      add_recurrent(model, texts);
      continue;
    }
    Layer& layer = layers_.emplace_back();
    layer.group = group_of(windows, model.config().window_of(number));
    const std::int64_t N = groups.at(layer.group).blocks;
    const Shape shape = {N, rows.heads, positions, rows.width / rows.heads},
                scales = {N, rows.heads, positions};
    layer.cache.keys = take(type.type, shape, "blocks of keys");
    if (type.codes()) layer.cache.key_scales = take(DType::f32, scales, "scales of keys");
    if (rows.values_are_keys) continue;
    layer.cache.values = take(type.type, shape, "blocks of values");
    if (type.codes())
      layer.cache.value_scales = take(DType::f32, scales, "scales of values");
  }
}

TensorView BlockCache::take(DType dtype, const Shape& shape, const char* label) {
  return buffers_.emplace_back(device_, dtype, shape, MemoryClass::activations, label)
      .view();
}

void BlockCache::add_recurrent(const LoadedModel& model, std::int64_t texts) {
  const auto [tail, state] = state_shapes(model);
  Layer& layer = layers_.emplace_back();
  layer.tail_rows = tail[0];
  layer.state_rows = state[0];
  if (tail[0] > 0)
    layer.tails = take(model.dtype(), {texts * tail[0], tail[1]}, "convolutions' tails");
  layer.states = take(accumulator_of(model.dtype()), {texts * state[0], state[1]},
                      "states of the delta rule");
}

void BlockCache::clear(Stream& stream, std::int64_t text) const {
  for (const Layer& layer : layers_) {
    if (!layer.recurrent()) continue;
    const parallel::RecurrentState kept = layer.state_of(text);
    if (layer.tail_rows > 0) kernels::fill(stream, kept.tail_WC, 0.0);
    kernels::fill(stream, kept.state, 0.0);
  }
}

std::size_t BlockCache::bytes() const {
  std::size_t bytes = 0;
  for (const Buffer& buffer : buffers_) bytes += buffer.bytes();
  return bytes;
}

}  // namespace trireme::infer
