// Roundings on the host; arguments as in kernels/rounding.hpp, already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rounding.hpp"

namespace trireme::kernels::host {

void round_stochastic(const TensorView& x_N, const TensorRun& run, DType type,
                      float scale, const RoundingKey& key);
void count_rounding_losses(const TensorView& x_N, const RoundingLimits& limits,
                           const TensorRun& run, const TensorView& scales_S,
                           const TensorView& counts_2);
void square(const TensorView& x);
void square_root(const TensorView& x, float least);

}  // namespace trireme::kernels::host
