// The emulation's twin of kernels/cuda/machine/cuda_machine/store.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace trireme::kernels::cuda {

template <class Struct>
inline void store_whole(Struct* to, const Struct& from) {
  *to = from;
}

}  // namespace trireme::kernels::cuda
