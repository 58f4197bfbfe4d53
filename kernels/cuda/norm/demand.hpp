// What the norms' backward takes from the workspace of a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

// Bytes of workspace that backward takes; centered: layer_norm_backward.
std::int64_t norm_backward_workspace(bool centered, const TensorView& dy_TD,
                                     const TensorView& x_TD, const TensorView& gain_D,
                                     const TensorView& residual_TD,
                                     const TensorView& dx_TD);

}  // namespace trireme::kernels::cuda
