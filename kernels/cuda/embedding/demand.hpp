// What embedding's backward takes from the workspace of a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

// Bytes of workspace that embedding_backward takes.
std::int64_t embedding_backward_workspace(const TensorView& dy_TD,
                                          const TensorView& dtable_RD);

}  // namespace trireme::kernels::cuda
