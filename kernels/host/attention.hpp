// Attention on the host, behind kernels/attention.hpp, whose checks it relies on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/memory.hpp"
#include "kernels/attention.hpp"

namespace trireme::kernels::host {

// Forward of one part; see kernels/attention.hpp. Keys and values are [B * S, G * K], or
// [B, C, G * K] with rows of the part in [0, C). o_THK has q's dtype (then the part has
// new queries) or the accumulator dtype. lse_TH may be empty if the queries are new.
// Takes from `scratch` what `workers` workers need; computes nothing when `scratch` is on
// meta. The result does not depend on `workers`.
void attention(Arena& scratch, const AttentionShape& shape, const AttentionPart& part,
               std::int64_t workers, const TensorView& q_THK, const TensorView& k_TGK,
               const TensorView& v_TGK, const TensorView& o_THK,
               const TensorView& lse_TH);

// Backward of one part. dq, dk and dv have q's dtype where they are written, or the
// accumulator dtype.
void attention_backward(Arena& scratch, const AttentionShape& shape,
                        const AttentionPart& part, std::int64_t workers,
                        const TensorView& do_THK, const TensorView& q_THK,
                        const TensorView& k_TGK, const TensorView& v_TGK,
                        const TensorView& o_THK, const TensorView& lse_TH,
                        const TensorView& dq_THK, const TensorView& dk_TGK,
                        const TensorView& dv_TGK);

}  // namespace trireme::kernels::host
