// PagedAttention: stores the new rows, then attends to all.
// SPDX-License-Identifier: Apache-2.0
#include "infer/paged_attention.hpp"

#include "base/device_memory.hpp"
#include "base/split.hpp"

namespace trireme::infer {

void PagedAttention::begin(Stream& stream, std::vector<TextPiece> pieces) {
  pieces_ = std::move(pieces);
  next_layer_ = 0;
  texts_.clear();
  for (const TextPiece& piece : pieces_) {
    texts_.resize(std::max(texts_.size(), piece.blocks.size()));
    for (std::size_t g = 0; g < piece.blocks.size(); ++g)
      texts_[g].push_back({piece.rows, piece.past, piece.blocks[g]});
    if (piece.past == 0) cache_.clear(stream, piece.place);
  }
  packed_texts_.assign(texts_.size(), {});
  if (stream.device().is_cuda()) upload(stream);
}

void PagedAttention::upload(Stream& stream) {
  constexpr std::int64_t unit = 64;  // words: each group begins at 256 bytes
  std::vector<std::int32_t> all;
  std::vector<Range> places;
  for (const auto& texts : texts_) {
    const std::vector<std::int32_t> packed =
        kernels::pack_texts(texts, cache_.positions());
    const auto begin = static_cast<std::int64_t>(all.size());
    all.insert(all.end(), packed.begin(), packed.end());
    places.push_back({begin, static_cast<std::int64_t>(all.size())});
    all.resize(static_cast<std::size_t>(
        divide_up(static_cast<std::int64_t>(all.size()), unit) * unit));
  }
  const auto words = static_cast<std::int64_t>(all.size());
  if (words == 0) return;  // all layers keep states
  if (packed_.view().empty() || packed_.view().elements() < words) {
    stream.synchronize();  // the last step may still read the old one
    packed_ = Buffer(stream.device(), DType::i32, {2 * words}, MemoryClass::data,
                     "tables of blocks");
  }
  copy_bytes(stream, TensorView(all.data(), DType::i32, {words}),
             packed_.view().rows(0, words));
  for (std::size_t g = 0; g < places.size(); ++g)
    packed_texts_[g] = packed_.view().rows(places[g].begin, places[g].count());
}

std::vector<parallel::RecurrentState> PagedAttention::recurrent_states(
    const Stream& stream, std::int64_t rows) {
  std::vector<parallel::RecurrentState> states;
  if (stream.device().is_meta()) {  // one text, which takes the most
    for (const BlockCache::Layer& layer : cache_.layers()) {
      if (!layer.recurrent()) continue;
      states.push_back(layer.state_of(0));
      states.back().rows = {0, rows};
      return states;
    }
    fail(Status::internal, "no layer has a state");
  }
  const BlockCache::Layer& layer = cache_.layers().at(next_layer_++);
  for (const TextPiece& piece : pieces_) {
    states.push_back(layer.state_of(piece.place));
    states.back().rows = piece.rows;
  }
  return states;
}

void PagedAttention::forward(Stream& stream, Arena& scratch,
                             const kernels::AttentionShape& shape,
                             const TensorView& q_THK, const TensorView& k_TGK,
                             const TensorView& v_TGK, const TensorView& o_THK,
                             const TensorView& lse_TH) {
  if (stream.device().is_meta()) {
    for (const BlockCache::Layer& layer : cache_.layers())
      if (!layer.recurrent())
        return kernels::attention_paged(stream, scratch, shape, {}, q_THK, layer.cache,
                                        o_THK, lse_TH);
    return;
  }
  const BlockCache::Layer& layer = cache_.layers().at(next_layer_++);
  const auto& texts = texts_.at(layer.group);
  const TensorView& packed = packed_texts_.at(layer.group);
  const kernels::PagedCache& cache = layer.cache;
  kernels::store_in_blocks(stream, texts, k_TGK, cache.keys, cache.key_scales, packed);
  if (!cache.values_are_keys())
    kernels::store_in_blocks(stream, texts, v_TGK, cache.values, cache.value_scales,
                             packed);
  kernels::attention_paged(stream, scratch, shape, texts, q_THK, cache, o_THK, lse_TH,
                           packed);
}

void PagedAttention::backward(Stream&, Arena&, const kernels::AttentionShape&,
                              const TensorView&, const TensorView&, const TensorView&,
                              const TensorView&, const TensorView&, const TensorView&,
                              const TensorView&, const TensorView&, const TensorView&) {
  fail(Status::internal, "a cached attention has no backward");
}

}  // namespace trireme::infer
