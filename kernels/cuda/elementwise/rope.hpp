// CUDA implementation of kernels/rope.hpp: arguments are checked there, but for
// positions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/rope.hpp"

namespace trireme::kernels::cuda {

void rope(Stream& stream, const TensorView& x, std::int64_t heads,
          const TensorView& positions_T, const TensorView& cos_sin_PK,
          Direction direction);
void rope_table(Stream& stream, double theta, const TensorView& cos_sin_PK);

}  // namespace trireme::kernels::cuda
