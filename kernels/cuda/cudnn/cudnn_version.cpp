// Version of cuDNN, as the loaded library tells it.
// SPDX-License-Identifier: Apache-2.0
#include <cudnn_graph.h>

#include "base/format.hpp"
#include "kernels/runtime/cuda_version.hpp"

namespace trireme::kernels {

std::string cudnn_version() {
  const std::size_t version = cudnnGetVersion();  // 10000 major + 100 minor + patch
  return format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

bool cudnn_is_built() { return true; }

}  // namespace trireme::kernels
