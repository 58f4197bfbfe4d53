// CUDA implementation of kernels/moe.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

// Bytes of workspace that counting choices takes, to sort them or for their own sake.
std::int64_t count_choices_workspace(std::int64_t choices, std::int64_t experts);
void sort_by_expert(Stream& stream, const TensorView& choice_TK, const TensorView& rows_E,
                    const TensorView& row_TK, const TensorView& token_N);
void gather_rows(Stream& stream, const TensorView& x_TD, const TensorView& index_R,
                 const TensorView& y_RD);
void scatter_rows(Stream& stream, const TensorView& x_RD, const TensorView& index_R,
                  const TensorView& y_RD);
void combine_rows(Stream& stream, const TensorView& rows_ND, const TensorView& row_TK,
                  const TensorView& weights_TK, bool accumulate, const TensorView& y_TD);
void combine_rows_backward(Stream& stream, const TensorView& dy_TD,
                           const TensorView& rows_ND, const TensorView& row_TK,
                           const TensorView& weights_TK, const TensorView& drows_ND,
                           const TensorView& dweights_TK);

}  // namespace trireme::kernels::cuda
