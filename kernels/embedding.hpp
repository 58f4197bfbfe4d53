// Table lookup and its gradient.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/accumulate.hpp"

namespace trireme::kernels {

// y_TD[t] = table_RD[index_T[t] - first], or zeros when that row is not in [0, R): the
// rows of a table that is split over ranks. index_T is i32; table and y in the compute
// dtype. accumulate: y += instead (positions onto tokens).
void embedding(Stream& stream, const TensorView& index_T, const TensorView& table_RD,
               std::int64_t first, Accumulate accumulate, const TensorView& y_TD);

// dtable_RD[index_T[t] - first] += dy_TD[t] for the rows in [0, R); dtable in the
// accumulation dtype. Rows are added in the order of t whatever the number of threads.
void embedding_backward(Stream& stream, const TensorView& dy_TD,
                        const TensorView& index_T, std::int64_t first,
                        const TensorView& dtable_RD);

}  // namespace trireme::kernels
