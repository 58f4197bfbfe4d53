// Paged attention on GPUs, behind kernels/paged_attention.hpp, whose checks it relies on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "base/split.hpp"
#include "kernels/paged_attention.hpp"

namespace trireme::kernels::cuda {
namespace paged {

inline constexpr int pairs = 16;                                    // of a block, at most
inline constexpr int chunk = 512;                                   // positions
inline constexpr std::int64_t most_bytes = std::int64_t{64} << 20;  // of parts

}  // namespace paged

// As kernels::store_in_blocks(), of packed texts.
void store_in_blocks(Stream& stream, std::span<const PagedText> texts,
                     const TensorView& x_TW, const TensorView& blocks_NGLK,
                     const TensorView& scales_NGL, const TensorView& packed);

// The most of the workspace that attention_paged() takes for so many rows of texts of up
// to `positions`: what their parts need, up to most_bytes or what 16 rows need.
inline std::int64_t paged_workspace_bytes(const AttentionShape& shape, DType type,
                                          std::int64_t rows, std::int64_t positions) {
  const std::int64_t chunks = divide_up(positions, std::int64_t{paged::chunk});
  if (chunks <= 1) return 0;
  const std::int64_t of_row = chunks * shape.heads * (shape.head_width + 2) *
                              static_cast<std::int64_t>(size_of(accumulator_of(type)));
  return std::min(rows * of_row, std::max(paged::most_bytes, paged::pairs * of_row));
}

// As kernels::attention_paged(), of packed texts.
void attention_paged(Stream& stream, const AttentionShape& shape,
                     std::span<const PagedText> texts, const TensorView& q_THK,
                     const PagedCache& cache, const TensorView& o_THK,
                     const TensorView& lse_TH, const TensorView& packed);

}  // namespace trireme::kernels::cuda
