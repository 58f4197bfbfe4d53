// Attention on the host, behind kernels/attention.hpp, whose checks it relies on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/memory.hpp"
#include "kernels/attention.hpp"

namespace trireme::kernels::host {

// Forward for queries at positions [past, past + S) of keys and values [B * S, G * K]
// (past = 0) or [B, C, G * K], C >= past + S. lse_TH may be empty. Takes from `scratch`
// what `workers` workers need; computes nothing when `scratch` is on meta. The result
// does not depend on `workers`.
void attention(Arena& scratch, const AttentionShape& shape, std::int64_t past,
               std::int64_t workers, const TensorView& q_THK, const TensorView& k_TGK,
               const TensorView& v_TGK, const TensorView& o_THK,
               const TensorView& lse_TH);

// Backward of the above with past = 0; see kernels/attention.hpp.
void attention_backward(Arena& scratch, const AttentionShape& shape, std::int64_t workers,
                        const TensorView& do_THK, const TensorView& q_THK,
                        const TensorView& k_TGK, const TensorView& v_TGK,
                        const TensorView& o_THK, const TensorView& lse_TH,
                        const TensorView& dq_THK, const TensorView& dk_TGK,
                        const TensorView& dv_TGK);

}  // namespace trireme::kernels::host
