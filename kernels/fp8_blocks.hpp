// Tensors in FP8 with a scale for each block of 128 x 128.
// SPDX-License-Identifier: Apache-2.0
// A rank has any run of elements. Blocks are those of the whole tensor, so that codes and
// scales do not depend on who holds what.
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/tensor_run.hpp"

namespace trireme::kernels {

// amaxes_S, f32, of the tensor's blocks, row by row: the larger of what is there and the
// largest |x| of the run in it; a NaN counts as infinity, which survives a maximum over
// ranks. x_N f32.
void amax_of_blocks(Stream& stream, const TensorView& x_N, const TensorRun& run,
                    const TensorView& amaxes_S);

// codes_N, u8, = fp8_encode(x / scale of the block); x_N and scales_S f32.
void encode_blocks(Stream& stream, const TensorView& x_N, const TensorRun& run,
                   Fp8Format format, const TensorView& scales_S,
                   const TensorView& codes_N);

// y_N = code * scale of the block, rounded to y's type (f64, f32, bf16 or f16).
void decode_blocks(Stream& stream, const TensorView& codes_N, const TensorRun& run,
                   Fp8Format format, const TensorView& scales_S, const TensorView& y_N);

}  // namespace trireme::kernels
