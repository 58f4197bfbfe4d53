// Host implementation of kernels/elementwise.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/tensor_view.hpp"

namespace trireme::kernels::host {

void add(const TensorView& a, const TensorView& b, const TensorView& y);
void add_bias(const TensorView& a_TD, const TensorView& b_TD, const TensorView& bias_D,
              const TensorView& y_TD);
void copy(const TensorView& x, const TensorView& y);
void fill(const TensorView& y, double value);
void scale(const TensorView& x, double factor);
void add_column_sums(const TensorView& x_TN, const TensorView& sums_N);
void accumulate(const TensorView& x, const TensorView& y);
void sum_parts(const TensorView& parts_PN, const TensorView& out_N);
void max_parts(const TensorView& parts_PN, const TensorView& out_N);
double sum_of_squares(const TensorView& x);
void add_sum(const TensorView& x, const TensorView& sum_1);
bool all_finite(const TensorView& x);

}  // namespace trireme::kernels::host
