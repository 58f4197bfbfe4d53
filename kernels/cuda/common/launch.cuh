// Starting a kernel on a stream.
// SPDX-License-Identifier: Apache-2.0
// Every launch goes through this function, so that it is checked, also when emulated.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/cuda/check.hpp"
#include "base/device.hpp"

namespace trireme::kernels::cuda {

struct Grid {
  dim3 blocks{1, 1, 1};
  dim3 threads{1, 1, 1};
  std::size_t shared_bytes = 0;  // dynamic
};

inline unsigned extent(std::int64_t n) { return static_cast<unsigned>(n); }

// Multiprocessors of the stream's GPU.
int multiprocessors(const Stream& stream);

// Blocks for `work` items at `per_block`, at most `waves` times as many as fill the GPU
// with 8 blocks a multiprocessor: kernels that stride over a grid are launched with
// these.
inline unsigned striding_blocks(const Stream& stream, std::int64_t work,
                                std::int64_t per_block, int waves = 4) {
  const std::int64_t needed = (work + per_block - 1) / per_block;
  const std::int64_t most = std::int64_t{8} * waves * multiprocessors(stream);
  return extent(std::clamp<std::int64_t>(needed, 1, most));
}

// Queues kernel(args...) on the stream. The arguments are converted to the kernel's
// parameter types and copied. Throws Error(transport) when the launch is refused.
template <class... Parameters, class... Arguments>
void launch(Stream& stream, const Grid& grid, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  using trireme::cuda::check;
  constexpr std::size_t without_asking = 40 << 10;  // of 48 KiB; static arrays: the rest
  if (grid.shared_bytes > without_asking) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(grid.shared_bytes)),
          "cudaFuncSetAttribute");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream.native());
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
        "cudaLaunchKernelEx");
}

}  // namespace trireme::kernels::cuda
