// Sums and maxima over a warp and a block, in an order that does not depend on timing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace trireme::kernels::cuda {

inline constexpr int warp_size = 32;
inline constexpr unsigned all_lanes = 0xffffffffu;

// Over the 32 lanes; every lane gets the result.
template <class T>
__device__ inline T warp_sum(T x) {
#pragma unroll
  for (int distance = warp_size / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(all_lanes, x, distance);
  return x;
}

template <class T>
__device__ inline T warp_max(T x) {
#pragma unroll
  for (int distance = warp_size / 2; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(all_lanes, x, distance);
    x = other > x ? other : x;
  }
  return x;
}

// Over a block of whole warps, at most 1024 threads; every thread gets the result. All
// threads of the block call it.
template <class T>
__device__ inline T block_sum(T x) {
  __shared__ T of_warps[warp_size];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  x = warp_sum(x);
  __syncthreads();  // an earlier call may still be reading
  if (lane == 0) of_warps[warp] = x;
  __syncthreads();
  T sum = lane < warps ? of_warps[lane] : T(0);
  return warp_sum(sum);
}

template <class T>
__device__ inline T block_max(T x) {
  __shared__ T of_warps[warp_size];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  x = warp_max(x);
  __syncthreads();
  if (lane == 0) of_warps[warp] = x;
  __syncthreads();
  T most = of_warps[lane < warps ? lane : 0];
  return warp_max(most);
}

}  // namespace trireme::kernels::cuda
