// Paged attention on hosts; see kernels/paged_attention.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/paged_attention.hpp"

namespace trireme::kernels::host {

void store_in_blocks(std::span<const PagedText> texts, const TensorView& x_TW,
                     const TensorView& blocks_NGLK, const TensorView& scales_NGL);

// On meta it takes what it needs from scratch and does nothing more.
void attention_paged(Arena& scratch, const AttentionShape& shape,
                     std::span<const PagedText> texts, int workers,
                     const TensorView& q_THK, const PagedCache& cache,
                     const TensorView& o_THK, const TensorView& lse_TH);

// kernels::attention_cached() row by row: for so few queries that a block of them would
// be empty but for a row or two. lse_TH may be empty.
void attention_of_few(Arena& scratch, const AttentionShape& shape, std::int64_t past,
                      int workers, const TensorView& q_BQHK, const TensorView& k_cache,
                      const TensorView& v_cache, const TensorView& o_BQHK,
                      const TensorView& lse_TH);

}  // namespace trireme::kernels::host
