// How many rows a tile of plain arithmetic has: as many as shared memory holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/attention/tiles.cuh"
#include "kernels/cuda/common/launch.cuh"

namespace trireme::kernels::cuda {

// Bytes of shared memory that a block may have; on every GPU of 8.0 or later at least
// those of 8.6.
inline constexpr std::int64_t least_shared_limit = 98 << 10;
inline std::int64_t shared_limit(int device) {
  int bytes = 0;
  trireme::cuda::check(
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
      "cudaDeviceGetAttribute");
  return bytes - 1024;  // of which reductions over a block have some
}
inline std::int64_t shared_limit(const Stream& stream) {
  return shared_limit(stream.device().index);
}

// Calls start<R>() with the largest R whose tile of 16 R rows fits, where
// elements(R, width) numbers of type W are needed.
template <class W, class Elements, class Start>
void with_rows(const Stream& stream, const char* kernel, std::int64_t width,
               const Elements& elements, const Start& start) {
  const std::int64_t limit = shared_limit(stream) / static_cast<int>(sizeof(W));
  if (elements(4, width) <= limit) return start.template operator()<4>();
  if (elements(2, width) <= limit) return start.template operator()<2>();
  require(elements(1, width) <= limit,
          "{}: heads of width {} need {} bytes of shared memory, but a block of this GPU "
          "has {}; use narrower heads",
          kernel, width, elements(1, width) * static_cast<std::int64_t>(sizeof(W)),
          shared_limit(stream));
  start.template operator()<1>();
}

}  // namespace trireme::kernels::cuda
