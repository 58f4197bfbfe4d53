// CUDA implementation of kernels/elementwise.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

void add(Stream& stream, const TensorView& a, const TensorView& b, const TensorView& y);
void add_bias(Stream& stream, const TensorView& a_TD, const TensorView& b_TD,
              const TensorView& bias_D, const TensorView& y_TD);
void copy(Stream& stream, const TensorView& x, const TensorView& y);
void fill(Stream& stream, const TensorView& y, double value);
void scale(Stream& stream, const TensorView& x, double factor);
void add_column_sums(Stream& stream, const TensorView& x_TN, const TensorView& sums_N);
// Bytes of workspace that add_column_sums takes, and each sum over a tensor below.
std::int64_t column_sums_workspace(const TensorView& x_TN);
std::int64_t sum_workspace(const TensorView& x);
void accumulate(Stream& stream, const TensorView& x, const TensorView& y);
void sum_parts(Stream& stream, const TensorView& parts_PN, const TensorView& out_N);
void max_parts(Stream& stream, const TensorView& parts_PN, const TensorView& out_N);
double sum_of_squares(Stream& stream, const TensorView& x);
bool all_finite(Stream& stream, const TensorView& x);
void add_sum(Stream& stream, const TensorView& x, const TensorView& sum_1);
void add_sum_of_squares(Stream& stream, const TensorView& x, const TensorView& sum_1);

}  // namespace trireme::kernels::cuda
