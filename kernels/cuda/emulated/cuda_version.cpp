// The CUDA libraries of the emulated device: none.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cuda_version.hpp"

namespace trireme::kernels {

std::string cublaslt_version() { return "emulated"; }

}  // namespace trireme::kernels
