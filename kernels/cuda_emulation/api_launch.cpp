// The emulated runtime: launches and what kernels may use.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "cuda_emulation/launch.hpp"
#include "kernels/cuda_emulation/api_call.hpp"
#include "kernels/cuda_emulation/block.hpp"

using namespace trireme::cuda_emulation;

namespace trireme::cuda_emulation {
namespace {

constexpr std::size_t usual_shared_bytes = 49152;  // more must be asked for, per kernel

// The dynamic shared memory that each kernel was allowed.
std::unordered_map<const void*, std::size_t>& allowed_shared_bytes() {
  static auto& allowed = *new std::unordered_map<const void*, std::size_t>;
  return allowed;
}

bool is_grid_valid(dim3 grid) {
  return grid.x >= 1 && grid.x <= 2147483647u && grid.y >= 1 && grid.y <= 65535 &&
         grid.z >= 1 && grid.z <= 65535;
}
bool is_block_valid(dim3 block) {
  return block.x >= 1 && block.x <= 1024 && block.y >= 1 && block.y <= 1024 &&
         block.z >= 1 && block.z <= 64 && block.x * block.y * block.z <= most_threads;
}

// Attributes that only say how fast are accepted; those that say what runs together are
// not emulated.
cudaError_t check(const cudaLaunchAttribute& attribute) {
  switch (attribute.id) {
    case cudaLaunchAttributeIgnore:
    case cudaLaunchAttributeProgrammaticStreamSerialization:
    case cudaLaunchAttributePriority:
    case cudaLaunchAttributePreferredSharedMemoryCarveout: return cudaSuccess;
    case cudaLaunchAttributeCooperative:
      return attribute.val.cooperative == 0 ? cudaSuccess : cudaErrorNotSupported;
    case cudaLaunchAttributeClusterDimension: {
      const auto& size = attribute.val.clusterDim;
      return size.x == 1 && size.y == 1 && size.z == 1 ? cudaSuccess
                                                       : cudaErrorNotSupported;
    }
  }
  return cudaErrorNotSupported;
}

cudaError_t check(const cudaLaunchConfig_t& config, const void* function) {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (!is_grid_valid(config.gridDim) || !is_block_valid(config.blockDim)) {
    return cudaErrorInvalidConfiguration;
  }
  const auto allowed = allowed_shared_bytes().find(function);
  const std::size_t most = allowed == allowed_shared_bytes().end()
                               ? usual_shared_bytes
                               : std::max(usual_shared_bytes, allowed->second);
  if (config.dynamicSmemBytes > std::min(most, limits().shared_per_block))
    return cudaErrorInvalidValue;
  if (config.numAttrs != 0 && config.attrs == nullptr) return cudaErrorInvalidValue;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaError_t error = check(config.attrs[i]);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t* config, Kernel kernel) {
  return call([&] {
    if (config == nullptr) return cudaErrorInvalidValue;
    CUstream_st* stream = Streams::get().find(config->stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->device != current_device()) return cudaErrorInvalidResourceHandle;
    const cudaError_t error = check(*config, kernel.function);
    if (error != cudaSuccess) return error;
    if (stream->recorded.capture == nullptr) load_kernel(kernel.function);
    return Streams::get().add(
        *stream, [kernel = std::move(kernel), grid = config->gridDim,
                  block = config->blockDim, shared_bytes = config->dynamicSmemBytes] {
          Engine::get().run(kernel, grid, block, shared_bytes);
        });
  });
}

}  // namespace trireme::cuda_emulation

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute,
                                 int value) {
  return call([&] {
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
      return value >= -1 && value <= 100 ? cudaSuccess : cudaErrorInvalidValue;
    }
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        static_cast<std::size_t>(value) > limits().shared_per_block) {
      return cudaErrorInvalidValue;
    }
    allowed_shared_bytes()[kernel] = static_cast<std::size_t>(value);
    return cudaSuccess;
  });
}

// Registers are not known here: threads and shared memory alone limit the number.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                          int block_threads,
                                                          std::size_t shared_bytes) {
  return call([&] {
    if (blocks == nullptr || block_threads < 1) return cudaErrorInvalidValue;
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    cudaDeviceProp device{};
    cudaGetDeviceProperties(&device, 0);
    const int warps = (block_threads + 31) / 32;
    const auto by_shared =
        static_cast<int>(device.sharedMemPerMultiprocessor /
                         (shared_bytes + device.reservedSharedMemPerBlock));
    *blocks = block_threads > device.maxThreadsPerBlock ||
                      shared_bytes > device.sharedMemPerBlockOptin
                  ? 0
                  : std::min({device.maxThreadsPerMultiProcessor / 32 / warps, by_shared,
                              device.maxBlocksPerMultiProcessor});
    return cudaSuccess;
  });
}
