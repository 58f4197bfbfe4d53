// PagedAttention: the attention core of a batch of texts with a cache in blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "infer/block_cache.hpp"
#include "parallel/attention_core.hpp"

namespace trireme::infer {

// Rows of one text in a step: its positions from `past` on, its place among the texts,
// and for each group of the cache the blocks of its positions.
struct TextPiece {
  Range rows;
  std::int64_t past = 0;
  std::int64_t place = 0;
  std::vector<const std::int32_t*> blocks;  // a table for each group
};

// Layers call in order: each forward of the stage is one begin() and then one call a
// layer.
class PagedAttention final : public parallel::AttentionCore {
 public:
  // The cache outlives it.
  explicit PagedAttention(const BlockCache& cache) : cache_(cache) {}

  bool is_cached() const override { return true; }
  // What the next forward brings. States of texts that begin (past 0) are set to 0.
  void begin(Stream& stream, std::vector<TextPiece> pieces);

  std::vector<parallel::RecurrentState> recurrent_states(const Stream& stream,
                                                         std::int64_t rows) override;
  void forward(Stream& stream, Arena& scratch, const kernels::AttentionShape& shape,
               const TensorView& q_THK, const TensorView& k_TGK, const TensorView& v_TGK,
               const TensorView& o_THK, const TensorView& lse_TH) override;
  // Throws Error(internal): nothing is trained through a cache.
  void backward(Stream& stream, Arena& scratch, const kernels::AttentionShape& shape,
                const TensorView& do_THK, const TensorView& q_THK,
                const TensorView& k_TGK, const TensorView& v_TGK, const TensorView& o_THK,
                const TensorView& lse_TH, const TensorView& dq_THK,
                const TensorView& dk_TGK, const TensorView& dv_TGK) override;

 private:
  void upload(Stream& stream);

  const BlockCache& cache_;
  std::vector<TextPiece> pieces_;
  std::vector<std::vector<kernels::PagedText>> texts_;  // of each group
  // On a GPU: what it reads of the texts of each group, in one buffer.
  Buffer packed_;
  std::vector<TensorView> packed_texts_;
  std::size_t next_layer_ = 0;
};

}  // namespace trireme::infer
