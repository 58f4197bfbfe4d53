// What is set before the first call of the CUDA runtime.
// SPDX-License-Identifier: Apache-2.0
#include "base/cuda/prepare.hpp"

#include <cstdlib>
#include <mutex>

namespace trireme::cuda {

void prepare() {
  static std::once_flag once;
  std::call_once(once, [] { ::setenv("CUDA_MODULE_LOADING", "EAGER", 0); });
}

}  // namespace trireme::cuda
