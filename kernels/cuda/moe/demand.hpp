// What the router and the sort by expert take from the workspace of a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

// Bytes of workspace that counting choices takes, to sort them or for their own sake.
std::int64_t count_choices_workspace(std::int64_t choices, std::int64_t experts);
// Bytes of workspace that balance_sums takes.
std::int64_t balance_sums_workspace(const TensorView& scores_TE,
                                    const TensorView& sums_B2E);

}  // namespace trireme::kernels::cuda
