// Host implementation of kernels/moe.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/tensor_view.hpp"

namespace trireme::kernels::host {

void sort_by_expert(const TensorView& choice_TK, const TensorView& rows_E,
                    const TensorView& row_TK, const TensorView& token_N);
void gather_rows(const TensorView& x_TD, const TensorView& index_R,
                 const TensorView& y_RD);
void scatter_rows(const TensorView& x_RD, const TensorView& index_R,
                  const TensorView& y_RD);
void combine_rows(const TensorView& rows_ND, const TensorView& row_TK,
                  const TensorView& weights_TK, bool accumulate, const TensorView& y_TD);
void combine_rows_backward(const TensorView& dy_TD, const TensorView& rows_ND,
                           const TensorView& row_TK, const TensorView& weights_TK,
                           const TensorView& drows_ND, const TensorView& dweights_TK);

}  // namespace trireme::kernels::host
