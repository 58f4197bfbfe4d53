// The emulation's twin of kernels/cuda/machine/cuda_machine/registers.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::kernels::cuda {

inline int recomputed(int x) { return x; }

}  // namespace trireme::kernels::cuda
