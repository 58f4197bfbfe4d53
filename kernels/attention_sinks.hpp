// Sinks of attention: one more logit of each head in the softmax, whose share is dropped.
// SPDX-License-Identifier: Apache-2.0
// T rows, H heads of width K. Source: Xiao et al., "Efficient Streaming Language Models
// with Attention Sinks", 2023, equation 2; OpenAI, "gpt-oss", 2025.
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// o_THK and lse_TH, as attention() leaves them, become those of a softmax with one more
// logit: lse' = log(e^lse + e^sink), o' = e^(lse - lse') o. The gradients of q, k and v
// are those that attention_backward() makes of o' and lse'. sinks_H has o's dtype; rows
// of o may be strided.
void add_sinks(Stream& stream, const TensorView& sinks_H, const TensorView& o_THK,
               const TensorView& lse_TH);

// terms_TH (written, accumulator dtype) = - e^(sink - lse') <do, o'>, whose sums over
// rows are the gradients of the sinks; o and lse as add_sinks() leaves them.
void sink_gradients(Stream& stream, const TensorView& sinks_H, const TensorView& do_THK,
                    const TensorView& o_THK, const TensorView& lse_TH,
                    const TensorView& terms_TH);

}  // namespace trireme::kernels
