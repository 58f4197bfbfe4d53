// Adds, copies, casts, fills, soft caps and column sums.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels {

// y = a + b, one shape and one floating dtype, dense; y may be a or b.
void add(Stream& stream, const TensorView& a, const TensorView& b, const TensorView& y);

// y_TD = a_TD + b_TD + bias_D. y may be a or b. bias may be empty.
void add_bias(Stream& stream, const TensorView& a_TD, const TensorView& b_TD,
              const TensorView& bias_D, const TensorView& y_TD);

// Every row of x_TD += bias_D.
void add_to_rows(Stream& stream, const TensorView& bias_D, const TensorView& x_TD);

// y = x converted to y's floating dtype; one shape; rows of matrices may be strided.
void copy(Stream& stream, const TensorView& x, const TensorView& y);

// Every element of the dense y = value (converted).
void fill(Stream& stream, const TensorView& y, double value);

// x *= factor, dense, any floating dtype.
void scale(Stream& stream, const TensorView& x, double factor);

// x = cap tanh(x / cap), any floating dtype; rows of matrices may be strided.
// Source: Bello et al., "Neural Combinatorial Optimization", 2016, equation 16; logits of
// Gemma 2.
void soft_cap(Stream& stream, const TensorView& x, double cap);

// d *= 1 - (y / cap)^2: from the gradient of soft_cap's result y to that of its input.
// One shape, the dtypes may differ; rows of matrices may be strided.
void soft_cap_backward(Stream& stream, const TensorView& y, double cap,
                       const TensorView& d);

// sums_N += sum over rows of x_TN. sums in the accumulator dtype of x. The order of the
// sum depends on T and N alone. Rows may be strided.
void add_column_sums(Stream& stream, const TensorView& x_TN, const TensorView& sums_N);

// y += x, both dense and floating, dtypes may differ; the sum is made in y's accumulator.
void accumulate(Stream& stream, const TensorView& x, const TensorView& y);

// out[i] = sum over p of parts[p, i], p ascending, kept in the accumulator dtype and
// rounded once to out's dtype, which equals that of parts. parts_PN dense [P, N]; out_N
// may be a row of parts. The local half of an all-reduce.
void sum_parts(Stream& stream, const TensorView& parts_PN, const TensorView& out_N);

// out[i] = max over p of parts[p, i].
void max_parts(Stream& stream, const TensorView& parts_PN, const TensorView& out_N);

// Sum of squares of the dense x in double, in an order that depends on its size alone.
// On meta: 0. Waits for the stream.
double sum_of_squares(Stream& stream, const TensorView& x);

// sum_1 += the number that sum_of_squares(x) gives, to the bit. sum_1 is f64 [1]. Async:
// nothing waits for the stream.
void add_sum_of_squares(Stream& stream, const TensorView& x, const TensorView& sum_1);

// The same for each of several tensors of one type; on a GPU in one sweep, in an order
// that depends on their sizes alone.
void add_sums_of_squares(Stream& stream, std::span<const TensorView> tensors,
                         const TensorView& sum_1);

// sum_1 += sum of the dense x, f32 or f64, in double; on the host term by term in their
// order. sum_1 is f64 [1]. Async: nothing waits for the stream.
void add_sum(Stream& stream, const TensorView& x, const TensorView& sum_1);

// True if every element of the dense floating x is finite. Waits for the stream.
bool all_finite(Stream& stream, const TensorView& x);

}  // namespace trireme::kernels
