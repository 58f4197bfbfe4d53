// CUDA implementation of kernels/cross_entropy.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/device.hpp"
#include "base/tensor_view.hpp"
#include "kernels/cross_entropy.hpp"

namespace trireme::kernels::cuda {

void cross_entropy_statistics(Stream& stream, const TensorView& logits_CV,
                              const TensorView& targets_C, std::int64_t first,
                              const TensorView& stats_C3);
void cross_entropy_combine(Stream& stream, const TensorView& stats_RC3,
                           const TensorView& stats_C3);
void cross_entropy_loss(Stream& stream, const TensorView& stats_C3,
                        const TensorView& targets_C, double z_loss,
                        const TensorView& loss_C);
void cross_entropy_gradient(Stream& stream, const TensorView& logits_CV,
                            const TensorView& stats_C3, const TensorView& targets_C,
                            std::int64_t first, const LossScale& scale, double z_loss,
                            const TensorView& dlogits_CV);

}  // namespace trireme::kernels::cuda
