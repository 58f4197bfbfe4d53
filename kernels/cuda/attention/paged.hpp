// Paged attention on GPUs, behind kernels/paged_attention.hpp, whose checks it relies on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/paged_attention.hpp"

namespace trireme::kernels::cuda {

// As kernels::store_in_blocks(), of packed texts.
void store_in_blocks(Stream& stream, std::span<const PagedText> texts,
                     const TensorView& x_TW, const TensorView& blocks_NGLK,
                     const TensorView& scales_NGL, const TensorView& packed);

// As kernels::attention_paged(), of packed texts. Has up to 64 MiB of the workspace, or
// what 16 rows need.
void attention_paged(Stream& stream, const AttentionShape& shape,
                     std::span<const PagedText> texts, const TensorView& q_THK,
                     const PagedCache& cache, const TensorView& o_THK,
                     const TensorView& lse_TH, const TensorView& packed);

}  // namespace trireme::kernels::cuda
