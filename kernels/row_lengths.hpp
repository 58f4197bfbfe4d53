// Lengths of the rows of a weight, and products with a number for each of them (DoRA).
// SPDX-License-Identifier: Apache-2.0
// On hosts, and nothing on meta; all throw Error(internal) on a GPU.
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// squares_N += the sum of the squares of each row of x_NK, in double, in an order that
// depends on K alone.
//
// x_NK       [N, K], floating; rows may be strided
// squares_N  f64 [N], added to
void add_row_squares(Stream& stream, const TensorView& x_NK, const TensorView& squares_N);

// x_N = its square roots as numbers of `rounded` (f32 or f64) have them; f64 [N].
void take_roots(Stream& stream, const TensorView& x_N, DType rounded);

// y_N = x_N / lengths_N; `at_zero` where a length is 0. f64 [N], x of any floating type;
// y may be x.
void divide_by_lengths(Stream& stream, const TensorView& x_N, const TensorView& lengths_N,
                       double at_zero, const TensorView& y_N);

// y_TN = x_TN, each column times its factor; y may be x, rows may be strided.
//
// factors_N  f64 [N]; the product is made in the accumulator of x
void scale_columns(Stream& stream, const TensorView& x_TN, const TensorView& factors_N,
                   const TensorView& y_TN);

// sums_N += sum over rows of x_TN y_TN, in double, row after row; of one type, rows may
// be strided. sums_N f64 [N].
void add_column_products(Stream& stream, const TensorView& x_TN, const TensorView& y_TN,
                         const TensorView& sums_N);

}  // namespace trireme::kernels
