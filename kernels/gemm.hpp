// Matrix products through oneDNN (f32, bf16, fp16) and BLAS (f64).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

enum class Transpose : bool { no, yes };
enum class Accumulate : bool { no, yes };  // C = ..., C += ...

// C [M, N] = op(A) [M, K] op(B) [K, N] (+ bias [N] on every row) (+ C).
//
// a, b     matrices of one type (f64, f32, bf16, f16), rows may be strided
// c        f64 for f64 inputs; f32 or the inputs' type otherwise; rows may be strided.
//          Written, or added to under Accumulate::yes. Must not overlap a or b
// bias     none, or [N] in the inputs' type; not together with Accumulate::yes
//
// Sums are kept in the accumulator type (f64, else f32) and rounded once at the end. Any
// extent may be 0 (K = 0 writes zeros, or the bias). Cost 2 M N K FLOPs; after the first
// call with given shapes nothing is allocated. Returns when done on a host.
// Throws Error(internal) when shapes or types do not match, Error(transport) when a
// library fails.
void gemm(Stream& stream, const TensorView& c, const TensorView& a, Transpose transpose_a,
          const TensorView& b, Transpose transpose_b,
          Accumulate accumulate = Accumulate::no, const TensorView& bias = {});

}  // namespace trireme::kernels
