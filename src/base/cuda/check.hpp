// Every CUDA call's result is checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.hpp"

namespace trireme::cuda {

// Throws Error(transport) naming the call and CUDA's words for the error.
inline void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // the runtime keeps the last error until it is read
  fail(Status::transport, "{} failed: {} ({})", call, cudaGetErrorString(code),
       cudaGetErrorName(code));
}

}  // namespace trireme::cuda
