// Roundings on GPUs; arguments as in kernels/rounding.hpp, already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rounding.hpp"

namespace trireme::kernels::cuda {

void round_stochastic(Stream& stream, const TensorView& x_N, const TensorRun& run,
                      DType type, float scale, const RoundingKey& key);
void square(Stream& stream, const TensorView& x);
void square_root(Stream& stream, const TensorView& x, float least);

}  // namespace trireme::kernels::cuda
