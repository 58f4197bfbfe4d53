// FP8 by squares on the host; arguments as in kernels/fp8_squares.hpp, already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/tensor_view.hpp"
#include "kernels/tensor_run.hpp"

namespace trireme::kernels::host {

void amax_of_squares(const TensorView& x_N, const TensorRun& run,
                     const TensorView& amaxes_S);
void encode_squares(const TensorView& x_N, const TensorRun& run, Fp8Format format,
                    const TensorView& scales_S, const TensorView& codes_N);
void decode_squares(const TensorView& codes_N, const TensorRun& run, Fp8Format format,
                    const TensorView& scales_S, const TensorView& y_N);

}  // namespace trireme::kernels::host
