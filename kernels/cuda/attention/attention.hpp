// Attention on CUDA devices, behind kernels/attention.hpp, whose checks it relies on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention.hpp"
#include "kernels/cuda/attention/cudnn.hpp"

namespace trireme::kernels::cuda {

// Both are done by cuDNN where attention_library() says so; what follows holds for our
// own kernels.

// Forward of one part; see kernels/attention.hpp. Keys and values are [B * S, G * K], or
// [B, C, G * K] with rows of the part in [0, C). o_THK has q's dtype (then the part has
// new queries) or the accumulator dtype. lse_TH may be empty if the queries are new.
// Bits do not depend on how queries are cut at multiples of 256. Takes nothing from an
// arena.
void attention(Stream& stream, const AttentionShape& shape, const AttentionPart& part,
               const TensorView& q_THK, const TensorView& k_TGK, const TensorView& v_TGK,
               const TensorView& o_THK, const TensorView& lse_TH);

// Bytes of workspace that our own kernels take in backward on a GPU of this node, or on
// one of today where the node has none; the library says at its first use what it takes.
std::int64_t attention_backward_workspace(const AttentionShape& shape,
                                          const AttentionPart& part,
                                          const AttentionTensors& tensors);

// Backward of one part. dq, dk and dv have q's dtype where they are written, or the
// accumulator dtype. Deterministic. Uses the device's workspace.

void attention_backward(Stream& stream, const AttentionShape& shape,
                        const AttentionPart& part, const TensorView& do_THK,
                        const TensorView& q_THK, const TensorView& k_TGK,
                        const TensorView& v_TGK, const TensorView& o_THK,
                        const TensorView& lse_TH, const TensorView& dq_THK,
                        const TensorView& dk_TGK, const TensorView& dv_TGK);

// Whether tensor cores do an attention of `width` on these tensors: bf16 or fp16, widths
// 32, 64, 96 and 128, every row of every tensor at a multiple of 16 bytes. Otherwise
// plain arithmetic does it.
bool attention_on_tensor_cores(std::int64_t width, std::span<const TensorView> tensors);

}  // namespace trireme::kernels::cuda
