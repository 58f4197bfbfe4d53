// What launches ask of the device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/common/launch.cuh"

#include <array>
#include <atomic>

namespace trireme::kernels::cuda {

int multiprocessors(const Stream& stream) {
  constexpr int most_devices = 64;
  static std::array<std::atomic<int>, most_devices> known{};
  const int index = stream.device().index;
  require(index >= 0 && index < most_devices, "GPU {} is out of range", index);
  auto& count = known[static_cast<std::size_t>(index)];
  if (count.load() == 0) {
    int value = 0;
    trireme::cuda::check(
        cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, index),
        "cudaDeviceGetAttribute");
    count.store(value);
  }
  return count.load();
}

}  // namespace trireme::kernels::cuda
