// The CUDA libraries of a build without CUDA: none.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cuda_version.hpp"

namespace trireme::kernels {

std::string cublaslt_version() { return "not built in"; }
std::string cudnn_version() { return "not built in"; }
bool cudnn_is_built() { return false; }

}  // namespace trireme::kernels
