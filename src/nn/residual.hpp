// Residual: where the output of a block's half joins the residual stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/dropout.hpp"
#include "nn/norm.hpp"

namespace trireme::nn {

// y = residual + output (+ bias), all outside the tensor region. If what follows on the
// stream is a norm, it is made with the sum, in one pass over memory and with the same
// bits: `norm`, `normed_TD` (written) and `saved` are its own, and all three or none are
// given. With an `output_norm` y = residual + output_norm(output + bias); `output_saved`
// is its own. With a `dropout` what joins the stream is dropped by it, as the last.
struct Residual {
  TensorView residual_TD, y_TD;
  const Norm* norm = nullptr;
  TensorView normed_TD{};
  Norm::Saved* saved = nullptr;
  const Norm* output_norm = nullptr;
  Norm::Saved* output_saved = nullptr;
  const DropoutConfig* dropout = nullptr;
  const parallel::TensorRegion* region = nullptr;  // with a dropout

  // kept_bias_D, in the type of weights, may be empty.
  void join(Pass& pass, const TensorView& output_TD, const TensorView& kept_bias_D) const;

 private:
  // output_norm(output + bias), in pass.scratch.
  TensorView normed_output(Pass& pass, const TensorView& output_TD,
                           const TensorView& bias_D) const;
};

}  // namespace trireme::nn
