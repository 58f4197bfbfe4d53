// The GPUs that this process sees.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct CudaDevice {
  std::string name;
  std::int64_t memory_bytes = 0;
  int compute_major = 0, compute_minor = 0;  // 9.0: Hopper
};

// Empty in a build without CUDA and on a machine without a GPU or a driver.
// Throws Error(transport) when the driver answers with another error.
std::vector<CudaDevice> cuda_devices();

// "13.0, driver 13.0", "13.0, no driver", or "not built in".
std::string cuda_version();

}  // namespace trireme
