// Versions of the CUDA libraries, as the loaded libraries tell them.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/cuda_version.hpp"

#include <cublasLt.h>

#include "base/format.hpp"

namespace trireme::kernels {

std::string cublaslt_version() {
  const std::size_t version = cublasLtGetVersion();  // 10000 major + 100 minor + patch
  return format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace trireme::kernels
