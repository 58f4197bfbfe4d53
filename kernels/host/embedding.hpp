// Host implementation of kernels/embedding.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/tensor_view.hpp"

namespace trireme::kernels::host {

void embedding(const TensorView& index_T, const TensorView& table_RD, std::int64_t first,
               bool accumulate, const TensorView& y_TD);
void embedding_backward(const TensorView& dy_TD, const TensorView& index_T,
                        std::int64_t first, const TensorView& dtable_RD);

}  // namespace trireme::kernels::host
