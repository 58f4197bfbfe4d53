// CUDA implementation of kernels/embedding.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme::kernels::cuda {

void embedding(Stream& stream, const TensorView& index_T, const TensorView& table_RD,
               std::int64_t first, bool accumulate, const TensorView& y_TD);
// Bytes of workspace that backward takes.
std::int64_t embedding_backward_workspace(const TensorView& dy_TD,
                                          const TensorView& dtable_RD);
void embedding_backward(Stream& stream, const TensorView& dy_TD,
                        const TensorView& index_T, std::int64_t first,
                        const TensorView& dtable_RD);

}  // namespace trireme::kernels::cuda
