// Profilers on the emulated device: there is none.
// SPDX-License-Identifier: Apache-2.0
#include "base/cuda/ranges.hpp"
#include "base/device_profiler.hpp"

namespace trireme {

void cuda::push_range(const char*) {}
void cuda::pop_range() {}
void start_device_profiler(Device) {}
void stop_device_profiler(Device) {}

}  // namespace trireme
