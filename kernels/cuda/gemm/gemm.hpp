// Matrix products on GPUs, of checked arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gemm.hpp"

namespace trireme::kernels::cuda {

// As kernels::gemm(), with M, N and K above 0.
void gemm(Stream& stream, const TensorView& c, const TensorView& a, Transpose transpose_a,
          const TensorView& b, Transpose transpose_b, Accumulate accumulate,
          const TensorView& bias);

// The same of a left operand that is not transposed, where each row of C depends on that
// row of A, on B and on the bias alone, to the bit: sums are made in an order that
// depends on K alone (set_independent_rows).
void gemm_by_rows(Stream& stream, const TensorView& c, const TensorView& a,
                  const TensorView& b, Transpose transpose_b, Accumulate accumulate,
                  const TensorView& bias);

// Bytes that the library keeps for its own work on a GPU of this compute capability.
std::int64_t gemm_workspace_bytes(int major);

// What a product's kernel does besides, after cuBLASLt's epilogues.
struct GemmEpilogue {
  enum class Kind {
    gelu,           // other (written) = product + vector (may be empty), c = gelu(other)
    gelu_backward,  // c = product times the derivative of GELU at other
    column_sums,    // vector += column sums of A, which is transposed
  };
  Kind kind;
  TensorView vector, other;
};
// As gemm() with an epilogue. False, and nothing is queued, where the library has no such
// kernel for these types, shapes and alignments; the emulated device never has.
bool gemm_with(Stream& stream, const TensorView& c, const TensorView& a,
               Transpose transpose_a, const TensorView& b, Transpose transpose_b,
               Accumulate accumulate, const GemmEpilogue& epilogue);

// As kernels::gemm_fp8(), with M, N and K above 0.
void gemm_fp8(Stream& stream, const TensorView& c, const Fp8Matrix& a_MK,
              const Fp8Matrix& b_NK, Accumulate accumulate, Fp8Sums sums);

// Every row of c_MN = row_N (of c's type, or of any that f32 holds), or zeros if it is
// empty.
void fill_rows(Stream& stream, const TensorView& row_N, const TensorView& c_MN);

}  // namespace trireme::kernels::cuda
