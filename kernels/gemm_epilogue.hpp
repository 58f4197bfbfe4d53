// Matrix products with what a layer does right before or behind them.
// SPDX-License-Identifier: Apache-2.0
// GPUs that have the library's fused kernels use them; others run a kernel of our own.
#pragma once

#include "kernels/activation.hpp"
#include "kernels/gemm.hpp"

namespace trireme::kernels {

// On a host each function gives the bits of gemm() and the kernel that it names. Fused on
// a GPU, an activation and its derivative see sums that were not yet rounded; which is
// done depends on the activation, types, shapes and alignments alone, so a run repeated
// gives the same bits. Activations are not gated. Arguments, Async and Throws as gemm().

// u_MN (written) = op(A) op(B) (+ bias_N, which may be empty), y_MN (written) =
// activation(u).
void gemm_activate(Stream& stream, Activation kind, const TensorView& y_MN,
                   const TensorView& u_MN, const TensorView& a, Transpose transpose_a,
                   const TensorView& b, Transpose transpose_b, const TensorView& bias_N);

// du_MN (written) = op(A) op(B) times the derivative of the activation at u_MN. du may
// not be u.
void gemm_activate_backward(Stream& stream, Activation kind, const TensorView& du_MN,
                            const TensorView& u_MN, const TensorView& a,
                            Transpose transpose_a, const TensorView& b,
                            Transpose transpose_b);

// c_ON = A^T B, or += it; sums_O += column sums of a_TO: the gradients of a weight and of
// its bias. sums in the accumulator type of A, as add_column_sums() wants it.
void gemm_column_sums(Stream& stream, const TensorView& c_ON, const TensorView& sums_O,
                      const TensorView& a_TO, const TensorView& b_TN,
                      Accumulate accumulate);

}  // namespace trireme::kernels
