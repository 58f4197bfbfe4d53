// Products of bf16 by the processor's own instruction, on packed operands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm.hpp"

namespace trireme::kernels {

// True if the processor multiplies bf16 (AVX512_BF16).
bool has_bf16_products();
// Whether that is faster than products of f32: VDPBF16PS makes half as many sums a cycle
// as an f32 FMA on Intel's processors, and twice as many on AMD's.
bool bf16_products_pay();

// As gemm() for bf16, with M, N and K above 0, where has_bf16_products(). Any transposes,
// strides and extents take the same path. Sums are those of parts of K, of at most 1,024,
// one after the other, whatever the number of threads. Subnormal numbers count as 0,
// for the instruction takes them so.
void gemm_bf16(const TensorView& c, const TensorView& a, Transpose transpose_a,
               const TensorView& b, Transpose transpose_b, Accumulate accumulate,
               const TensorView& bias);

// The same by AMX, where has_amx() (kernels/gemm/amx_tile.hpp).
void gemm_amx(const TensorView& c, const TensorView& a, Transpose transpose_a,
              const TensorView& b, Transpose transpose_b, Accumulate accumulate,
              const TensorView& bias);

}  // namespace trireme::kernels
