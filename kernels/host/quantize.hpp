// FP8 quantization on the host; arguments as in kernels/quantize.hpp, already checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/fp8.hpp"

namespace trireme::kernels::host {

void amax(const TensorView& x, const TensorView& amax_1, bool so_far);
void transpose(const TensorView& x_MK, const TensorView& y_KM);
void quantize(const TensorView& x_MK, const Fp8Matrix& y);
void count_losses(const TensorView& x_MK, const Fp8Matrix& y, const TensorView& counts_2,
                  const TensorView& scale_1);
void dequantize(const Fp8Matrix& x, const TensorView& y_MK);

}  // namespace trireme::kernels::host
