// The emulation's twin of kernels/cuda/machine/cuda_machine/registers.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::kernels::cuda {

template <class T>
inline T recomputed(T x) {
  return x;
}

}  // namespace trireme::kernels::cuda
