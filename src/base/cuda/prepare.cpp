// What is set before the first call of the CUDA runtime.
// SPDX-License-Identifier: Apache-2.0
#include "base/cuda/prepare.hpp"

#include <cstdlib>
#include <mutex>

namespace trireme::cuda {

// What the environment says already stays. Queues of the device: as many as there may be,
// since two streams that share one wait for each other without need.
void prepare() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  });
}

}  // namespace trireme::cuda
