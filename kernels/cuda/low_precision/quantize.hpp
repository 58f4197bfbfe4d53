// FP8 quantization on GPUs; arguments as in kernels/quantize.hpp, already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "kernels/fp8.hpp"

namespace trireme::kernels::cuda {

void amax(Stream& stream, const TensorView& x, const TensorView& amax_1, bool so_far);
void transpose(Stream& stream, const TensorView& x_MK, const TensorView& y_KM);
void scale_of_amax(Stream& stream, const TensorView& amax_1, Fp8Format format,
                   const TensorView& scale_1, ScaleSteps steps);
void quantize(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y);
void count_losses(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y,
                  const TensorView& counts_2, const TensorView& scale_1);
void dequantize(Stream& stream, const Fp8Matrix& x, const TensorView& y_MK);

}  // namespace trireme::kernels::cuda
