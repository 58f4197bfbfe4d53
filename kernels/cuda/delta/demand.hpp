// What the causal convolution's backward takes from the workspace of a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

// Bytes of workspace that causal_conv_backward takes.
std::int64_t causal_conv_backward_workspace(const TensorView& x_TC,
                                            const TensorView& weight_CW);

}  // namespace trireme::kernels::cuda
