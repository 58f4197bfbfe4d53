// The profiler that a program of NVIDIA's runs beside this process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"

namespace trireme {

// Tell it to record from here on, and no more, if `device` is a GPU: `nsys profile
// --capture-range=cudaProfilerApi` records between the two. Nothing without such a
// program. Throw Error(transport).
void start_device_profiler(Device device);
void stop_device_profiler(Device device);

}  // namespace trireme
