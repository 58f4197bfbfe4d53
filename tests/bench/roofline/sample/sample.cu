// Kernels whose code is known, for the test of roofline: see make_sample.sh.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

namespace sample {
namespace {

// One load and one store of 16 bytes a pass.
__global__ void copies_widely(const uint4* x, uint4* y, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i];
}

// The same by 4 bytes.
template <int bytes>
__global__ void copies_narrowly(const unsigned* x, unsigned* y, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i];
}

// An array that is indexed by a number of run time lies in local memory.
__global__ void keeps_in_memory(const int* x, int* y) {
  int kept[256];
#pragma unroll 1
  for (int i = 0; i < 256; ++i) kept[x[i] & 255] = i;
  y[threadIdx.x] = kept[x[threadIdx.x] & 255];
}

}  // namespace

void use() {
  copies_widely<<<1, 1>>>(nullptr, nullptr, 0);
  copies_narrowly<4><<<1, 1>>>(nullptr, nullptr, 0);
  keeps_in_memory<<<1, 1>>>(nullptr, nullptr);
}

}  // namespace sample
