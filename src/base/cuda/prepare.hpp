// What is set before the first call of the CUDA runtime.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::cuda {

// Before MPI starts, whose libraries may start the driver, and before the first call of
// the CUDA runtime, which every file of this folder that may make it does. Modules are
// loaded at once, unless the environment says otherwise: a kernel that is loaded at its
// first launch may wait until the GPU is idle, and a receive that was posted before keeps
// it busy until this rank's own work is done. The device has 32 work queues in place of 8
// (docs/decisions/gpu-bring-up.md says why).
void prepare();

}  // namespace trireme::cuda
