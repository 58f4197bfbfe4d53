// Attention of a batch of texts to a cache of keys and values in blocks.
// SPDX-License-Identifier: Apache-2.0
// Legend: T rows of all texts, H query heads, G key/value heads, K head width, N blocks
// of L positions.
// Source: Kwon et al., "Efficient Memory Management for Large Language Model Serving with
// PagedAttention", 2023, section 4.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.hpp"

namespace trireme::kernels {

// The keys and values of one layer. Elements are floating, or codes with a scale for each
// position and head: e4m3 (the largest magnitude becomes 448), or u8 that holds the bits
// of an int8 (it becomes 127).
struct PagedCache {
  TensorView keys{}, values{};              // [N, G, L, K]; no values: they are the keys
  TensorView key_scales{}, value_scales{};  // f32 [N, G, L], of codes
  bool values_are_keys() const { return values.empty(); }
};

// Rows [rows.begin, rows.end) of a batch are a text's positions from `past` on. blocks[i]
// is the block of its positions [i L, (i + 1) L); those that no window reaches are not
// looked at.
struct PagedText {
  Range rows;
  std::int64_t past = 0;
  const std::int32_t* blocks = nullptr;
};

// What a GPU reads of the texts, whose rows follow one another from 0 on, once it lies
// there: the numbers of each row's text, then the tables of blocks of L positions. The
// calls below take it as `packed`, and hosts need none.
std::vector<std::int32_t> pack_texts(std::span<const PagedText> texts, std::int64_t L);

// Puts rows x_TW into the blocks of their positions, as codes where there are scales.
void store_in_blocks(Stream& stream, std::span<const PagedText> texts,
                     const TensorView& x_TW, const TensorView& blocks_NGLK,
                     const TensorView& scales_NGL, const TensorView& packed = {});

// o = softmax(scale q k^T) v of each row with the positions up to its own, from
// shape.first_T on (positions of its text), which lie in the cache. q_THK, o_THK [T, H *
// K] and lse_TH as for attention(); shape.batch * shape.sequence = T; no dropout. A row's
// bits depend on its query, the cache and its position alone: neither on other rows, nor
// on how a text was cut, nor on L. scratch as for attention(). On a GPU query heads that
// share a head of keys are neighbours.
void attention_paged(Stream& stream, Arena& scratch, const AttentionShape& shape,
                     std::span<const PagedText> texts, const TensorView& q_THK,
                     const PagedCache& cache, const TensorView& o_THK,
                     const TensorView& lse_TH, const TensorView& packed = {});

}  // namespace trireme::kernels
