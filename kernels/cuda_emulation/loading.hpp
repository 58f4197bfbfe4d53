// When kernels are loaded onto the device.
// SPDX-License-Identifier: Apache-2.0
//
// With CUDA's lazy loading the first launch of a kernel loads it, and may wait until the
// device is idle ("Lazy Loading", CUDA Programming Guide: kernels that are to run at the
// same time must be loaded before). Here it always waits. CUDA_MODULE_LOADING=EAGER, set
// before the first call, loads what the program was linked with; kernels of libraries
// are loaded by them, at first use.
#pragma once

namespace trireme::cuda_emulation {

// The first call of the runtime reads the environment, as the driver does.
void note_first_call();
// Before the launch of a kernel that is part of the program. Needs the API's mutex.
void load_kernel(const void* function);

}  // namespace trireme::cuda_emulation
