// CUDA for the host, as <cuda_runtime.h> has it.
// SPDX-License-Identifier: Apache-2.0
// It holds qualifiers, device functions and the runtime.
#pragma once

#include <cstddef>

#include "cuda_emulation/atomics.hpp"
#include "cuda_emulation/launch.hpp"
#include "cuda_emulation/math.hpp"
#include "cuda_emulation/thread.hpp"
#include "cuda_emulation/warp.hpp"
#include "cuda_runtime_api.h"

// Calls with typed pointers, as the toolkit's C++ header has them.
template <class T>
cudaError_t cudaMalloc(T** address, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(address), bytes);
}
template <class T>
cudaError_t cudaMallocAsync(T** address, std::size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(address), bytes, stream);
}
template <class T>
cudaError_t cudaMallocHost(T** address, std::size_t bytes, unsigned flags = 0) {
  return cudaMallocHost(reinterpret_cast<void**>(address), bytes, flags);
}
template <class T>
cudaError_t cudaHostAlloc(T** address, std::size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(address), bytes, flags);
}
template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...),
                                 cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          void (*kernel)(Parameters...),
                                                          int block_threads,
                                                          std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      blocks, reinterpret_cast<const void*>(kernel), block_threads, shared_bytes);
}
