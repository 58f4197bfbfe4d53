// Versions of the CUDA libraries that kernels are built on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::kernels {

// "13.1.0", or "not built in".
std::string cublaslt_version();

}  // namespace trireme::kernels
