// The GPUs of a build without CUDA: none.
// SPDX-License-Identifier: Apache-2.0
#include "base/cuda_devices.hpp"

namespace trireme {

std::vector<CudaDevice> cuda_devices() { return {}; }
std::string cuda_version() { return "not built in"; }

}  // namespace trireme
