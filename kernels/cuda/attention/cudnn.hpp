// cuDNN's fused attention, where a build has it.
// SPDX-License-Identifier: Apache-2.0
// It does causal attention of whole sequences to themselves, in bf16 and f16.
#pragma once

#include <string>

#include "kernels/attention.hpp"

namespace trireme::kernels::cuda {

// Operands of a whole attention, as in kernels/attention.hpp. Without d_o: of forward.
struct AttentionTensors {
  TensorView q, k, v, o, lse;
  TensorView d_o = {}, dq = {}, dk = {}, dv = {};
};

// Bytes of workspace that cudnn_attention() is expected to take on a GPU of compute
// capability `major`: what this side asks for, and the scores that backward holds. 0 for
// what it does not do. Tensors may lie on meta.
std::int64_t cudnn_attention_workspace(const AttentionShape& shape,
                                       const AttentionTensors& tensors, int major);

// Forward, or backward where there is d_o. False where cuDNN does not do it, and `reason`
// says why: what depends on tensors' addresses and on `shape` alone is told at once; for
// the rest the library makes a plan when it is asked of a shape, strides, dtype and GPU
// for the first time (about a second: it compiles), and a refusal, or a failure of the
// plan's first run, is logged then. Throws Error(transport) when the library fails
// otherwise. Strides are the library's to handle: nothing is copied.
// Backward adds dq up in memory of the size of the scores, for as many sequences at once
// as fit 1 GiB, because the library's other way has no fixed order of sums: it is as
// deterministic as forward. That other way, which takes f32 of dq's size, is taken where
// attention_deterministic() is false. dk and dv of query heads that share a key/value
// head are rounded to q's dtype before they are added up. Uses the device's workspace.
bool cudnn_attention(Stream& stream, const AttentionShape& shape,
                     const AttentionTensors& tensors, std::string& reason);

}  // namespace trireme::kernels::cuda
