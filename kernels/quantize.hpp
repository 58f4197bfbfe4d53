// FP8 quantization: largest magnitudes, scales, codes, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/fp8.hpp"

namespace trireme::kernels {

// amax_1 [1] f32, written: the largest |x|, 0 of an empty x, NaN if any element is NaN.
// x is dense, or a matrix, whose rows may be strided; f64, f32, bf16 or f16.
void amax(Stream& stream, const TensorView& x, const TensorView& amax_1);

// The same, but amax_1 stays where it is larger, or NaN: the largest so far.
void amax_so_far(Stream& stream, const TensorView& x, const TensorView& amax_1);

// y_KM = x_MK transposed, bit for bit, for products along the other dimension of a
// matrix. One type (codes are u8); y dense.
void transpose(Stream& stream, const TensorView& x_MK, const TensorView& y_KM);

// scale_1 [1] f32 = fp8_scale(amax_1, format, steps).
void scale_of_amax(Stream& stream, const TensorView& amax_1, Fp8Format format,
                   const TensorView& scale_1, ScaleSteps steps = ScaleSteps::any);

// y = x_MK in FP8: code = round(x * (1 / scale)), where inverse and product are made in
// f32 (f64 for an x of f64) and rounding is fp8_encode's: to nearest even, saturating,
// NaN stays NaN. A code is the same on every device. Throws Error(resources) for row_32
// on a GPU.
//
// x_MK       f64, f32, bf16 or f16; rows may be strided
// y.codes    [M, K] u8, written
// y.scales   read with Fp8Scaling::tensor, [1]; otherwise written: of each block's
//            largest magnitude fp8_scale(), or with row_32, and with y.steps,
//            fp8_power_scale()
void quantize(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y);

// The codes of quantize(), and those of the transposed matrix, in one read of x_MK: with
// one scale for the tensor they are the same numbers.
//
// y         Fp8Scaling::tensor; its codes may be empty, when only the others are wanted
// codes_KM  u8 [K, M], dense, written; may be empty
// amax_1    as in amax_so_far(), of x_MK; may be empty
void quantize_and_transpose(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y,
                            const TensorView& codes_KM, const TensorView& amax_1);

// What quantize(x, y) lost: adds to counts_2 (f64 [2]) how many elements saturated
// (fp8_saturates(); infinities do) and how many that were not 0 have a code of 0. Raises
// scale_1 (f32 [1]) to the largest scale of an element that is not 0: blocks of zeros
// have a scale that says nothing.
void count_losses(Stream& stream, const TensorView& x_MK, const Fp8Matrix& y,
                  const TensorView& counts_2, const TensorView& scale_1);

// y_MK = code * scale, in f32 (f64 for a y of f64), rounded to y's type.
void dequantize(Stream& stream, const Fp8Matrix& x, const TensorView& y_MK);

}  // namespace trireme::kernels
