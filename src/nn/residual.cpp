// Residual: the sum, and the norm behind it.
// SPDX-License-Identifier: Apache-2.0
#include "nn/residual.hpp"

#include "kernels/elementwise.hpp"
#include "nn/linear.hpp"

namespace trireme::nn {

void Residual::join(Pass& pass, const TensorView& output_TD,
                    const TensorView& kept_bias_D) const {
  const ArenaScope scope(pass.scratch);
  const TensorView bias_D = in_type(pass, kept_bias_D, residual_TD.dtype());
  if (norm == nullptr) {
    kernels::add_bias(pass.stream, residual_TD, output_TD, bias_D, y_TD);
  } else {
    norm->forward(pass, {residual_TD, output_TD, bias_D}, y_TD, normed_TD, *saved);
  }
}

}  // namespace trireme::nn
