// What sums take from the workspace of a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

// Bytes of workspace that add_column_sums takes, and each sum over a tensor.
std::int64_t column_sums_workspace(const TensorView& x_TN);
std::int64_t sum_workspace(const TensorView& x);
std::int64_t sums_workspace(std::span<const TensorView> tensors);

}  // namespace trireme::kernels::cuda
