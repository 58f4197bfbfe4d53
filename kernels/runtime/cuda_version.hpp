// Versions of the CUDA libraries that kernels are built on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::kernels {

// "13.1.0", "not built in", or "emulated".
std::string cublaslt_version();
std::string cudnn_version();

// False where cuDNN is not built in, or emulated.
bool cudnn_is_built();

}  // namespace trireme::kernels
