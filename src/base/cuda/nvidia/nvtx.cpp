// NVIDIA's profilers: named ranges through NVTX, and when to record.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include "base/cuda/check.hpp"
#include "base/cuda/ranges.hpp"
#include "base/device_profiler.hpp"

namespace trireme {

void cuda::push_range(const char* name) { nvtxRangePushA(name); }
void cuda::pop_range() { nvtxRangePop(); }

void start_device_profiler(Device device) {
  if (device.is_cuda()) cuda::check(cudaProfilerStart(), "cudaProfilerStart");
}

void stop_device_profiler(Device device) {
  if (device.is_cuda()) cuda::check(cudaProfilerStop(), "cudaProfilerStop");
}

}  // namespace trireme
