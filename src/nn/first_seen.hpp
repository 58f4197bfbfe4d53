// The first positions that queries see: of windows, and of documents in a sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention.hpp"
#include "nn/pass.hpp"

namespace trireme::nn {

// For AttentionShape::first_T, with a window of so many positions, or 0 for none: the
// documents' own, or in pass.scratch; empty where a query sees all before it.
inline TensorView first_seen(Pass& pass, std::int64_t window) {
  const Documents& documents = pass.microbatch.documents;
  if (!documents.empty())
    return window > 0 ? documents.window_starts_T : documents.starts_T;
  if (window == 0) return {};
  const TensorView first_T =
      pass.scratch.take(DType::i32, {pass.tokens()}, "attention.window starts");
  kernels::window_starts(pass.stream, pass.microbatch.positions_T, window, first_T);
  return first_T;
}

}  // namespace trireme::nn
