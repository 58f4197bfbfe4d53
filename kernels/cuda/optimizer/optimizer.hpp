// CUDA implementation of kernels/optimizer.hpp: arguments are checked there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/optimizer.hpp"

namespace trireme::kernels::cuda {

void update(Stream& stream, const Update& update, const TensorView& master,
            const TensorView& gradient, const UpdateStates& states,
            const TensorView& weight);

}  // namespace trireme::kernels::cuda
