// Dynamic shared memory of the block that runs, emulated.
// SPDX-License-Identifier: Apache-2.0
// The header's twin lies in kernels/cuda/machine.
#pragma once

#include "cuda_emulation/qualifiers.hpp"

namespace trireme::cuda_emulation {

// Filled with bits 1 before each block. What lies around it is guarded.
void* dynamic_shared_memory();

}  // namespace trireme::cuda_emulation

namespace trireme::kernels::cuda {

template <class T>
__device__ T* dynamic_shared() {
  return static_cast<T*>(trireme::cuda_emulation::dynamic_shared_memory());
}

}  // namespace trireme::kernels::cuda
