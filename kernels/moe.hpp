// Rows of tokens sorted by expert: the sort, the way there and back, and their products.
// SPDX-License-Identifier: Apache-2.0
// Legend: T tokens, K experts of a token, E experts, N and R sorted rows, D, I, O widths.
#pragma once

#include <cstdint>
#include <span>

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/accumulate.hpp"

namespace trireme::kernels {

// A counting sort of the (token, choice) pairs by expert, tokens in order within each.
// choice_TK (i32): expert, or -1 where the pair is dropped.
// rows_E (i32, written): pairs of each expert; their sum is N.
// row_TK (i32, written): place of each pair among the N, -1 where dropped.
// token_N (i32, [T K]): the first N are written, the token of each row.
void sort_by_expert(Stream& stream, const TensorView& choice_TK, const TensorView& rows_E,
                    const TensorView& row_TK, const TensorView& token_N);

// y_RD[r] = x_TD[index_R[r]] (i32, every index legal).
void gather_rows(Stream& stream, const TensorView& x_TD, const TensorView& index_R,
                 const TensorView& y_RD);
// y_RD[index_R[r]] = x_RD[r]; index_R (i32) is a permutation.
void scatter_rows(Stream& stream, const TensorView& x_RD, const TensorView& index_R,
                  const TensorView& y_RD);

// y_TD[t] = (Accumulate::yes ? y_TD[t] : 0) + sum over k, in order, of weights_TK[t, k]
// rows_ND[row_TK[t, k]]; dropped pairs (-1) add nothing. weights in the accumulator
// dtype; empty: all 1 (the adjoint of gather_rows with the tokens of sort_by_expert).
// row_TK empty: K = 1, and row t is that of token t (a gate of a shared expert).
void combine_rows(Stream& stream, const TensorView& rows_ND, const TensorView& row_TK,
                  const TensorView& weights_TK, Accumulate accumulate,
                  const TensorView& y_TD);
// drows_ND[row] = w dy_TD[t] and dweights_TK = <dy_TD[t], rows_ND[row]>, 0 where dropped;
// both written. The order of each sum depends on D alone. row_TK may be empty as above.
void combine_rows_backward(Stream& stream, const TensorView& dy_TD,
                           const TensorView& rows_ND, const TensorView& row_TK,
                           const TensorView& weights_TK, const TensorView& drows_ND,
                           const TensorView& dweights_TK);

// One product for each expert over its own rows: rows_E holds how many, one expert after
// the other; none is legal; empty on meta. Weights of all experts lie one below the
// other: [E * O, I]. On a GPU products of 16 bits are one launch for all experts, unless
// experts have so many rows that each product fills the GPU. y_RO = x_RI W_e^T
void grouped_linear(Stream& stream, std::span<const std::int32_t> rows_E,
                    const TensorView& x_RI, const TensorView& weights_EOI,
                    const TensorView& y_RO);
// dx_RI = dy_RO W_e
void grouped_linear_input_gradient(Stream& stream, std::span<const std::int32_t> rows_E,
                                   const TensorView& dy_RO, const TensorView& weights_EOI,
                                   const TensorView& dx_RI);
// dW_e += dy_RO^T x_RI over the rows of e; in the accumulation dtype.
void grouped_linear_weight_gradient(Stream& stream, std::span<const std::int32_t> rows_E,
                                    const TensorView& dy_RO, const TensorView& x_RI,
                                    const TensorView& dweights_EOI);

}  // namespace trireme::kernels
