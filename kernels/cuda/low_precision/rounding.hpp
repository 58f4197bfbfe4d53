// Roundings on GPUs; arguments as in kernels/rounding.hpp, already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rounding.hpp"

namespace trireme::kernels::cuda {

void round_stochastic(Stream& stream, const TensorView& x_N, const TensorRun& run,
                      DType type, float scale, const RoundingKey& key);
void count_rounding_losses(Stream& stream, const TensorView& x_N,
                           const RoundingLimits& limits, const TensorRun& run,
                           const TensorView& scales_S, const TensorView& counts_2);
void square(Stream& stream, const TensorView& x);
void square_root(Stream& stream, const TensorView& x, float least);

}  // namespace trireme::kernels::cuda
