// Residual: the sum, and the norm behind it.
// SPDX-License-Identifier: Apache-2.0
#include "nn/residual.hpp"

#include "kernels/elementwise.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {

TensorView Residual::normed_output(Pass& pass, const TensorView& output_TD,
                                   const TensorView& bias_D) const {
  const auto take = [&](Arena& arena) {
    return arena.take(output_TD.dtype(), output_TD.shape(), "residual.output");
  };
  const TensorView raw_TD = take(pass.saved), normed = take(pass.scratch);
  kernels::copy(pass.stream, output_TD, raw_TD);
  if (!bias_D.empty()) {
    kernels::fill(pass.stream, normed, 0.0);
    kernels::add_bias(pass.stream, raw_TD, normed, bias_D, raw_TD);
  }
  output_norm->forward(pass, raw_TD, normed, *output_saved);
  return normed;
}

void Residual::join(Pass& pass, const TensorView& output_TD,
                    const TensorView& kept_bias_D) const {
  const ArenaScope scope(pass.scratch);
  TensorView bias_D = in_type(pass, kept_bias_D, residual_TD.dtype());
  TensorView branch_TD = output_TD;
  if (output_norm != nullptr) {
    branch_TD = normed_output(pass, output_TD, bias_D);
    bias_D = {};
  }
  if (dropout != nullptr && drops(pass, *dropout)) {
    const TensorView dropped_TD =
        pass.scratch.take(branch_TD.dtype(), branch_TD.shape(), "residual.dropped");
    kernels::copy(pass.stream, branch_TD, dropped_TD);
    if (!bias_D.empty()) kernels::add_to_rows(pass.stream, bias_D, dropped_TD);
    nn::dropout(pass, *region, *dropout, dropped_TD, dropped_TD);
    branch_TD = dropped_TD;
    bias_D = {};
  }
  if (norm == nullptr) {
    kernels::add_bias(pass.stream, residual_TD, branch_TD, bias_D, y_TD);
  } else {
    norm->forward(pass, {residual_TD, branch_TD, bias_D}, y_TD, normed_TD, *saved);
  }
}

}  // namespace trireme::nn
