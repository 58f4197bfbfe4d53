// Dynamic shared memory of the block that runs.
// SPDX-License-Identifier: Apache-2.0
//
// Headers <cuda_machine/...> hold what only a GPU's compiler understands. Each has a twin
// under kernels/cuda_emulation/include, which a build with the emulated CUDA finds
// instead.
#pragma once

namespace trireme::kernels::cuda {

// The block's dynamic shared memory, as many bytes as the launch asked for, aligned to
// 128. Undefined until written. All calls in a block return the same address.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char trireme_dynamic_shared[];
  return reinterpret_cast<T*>(trireme_dynamic_shared);
}

}  // namespace trireme::kernels::cuda
