// Memory of GPUs and copies, through the CUDA runtime.
// SPDX-License-Identifier: Apache-2.0
#include "base/device_memory.hpp"

#include <cstring>
#include <exception>

#include "base/cuda/check.hpp"
#include "base/use_device.hpp"

namespace trireme {
namespace {

using cuda::check;

// Whether the device may read memory of the host that is not pinned by itself (Grace, or
// Linux's HMM), when the copy runs: elsewhere the call must have taken the bytes when it
// returns ("API synchronization behavior", CUDA Runtime API).
bool reads_later(Device device, const TensorView& x) {
  int reads_host_memory = 0;
  check(cudaDeviceGetAttribute(&reads_host_memory, cudaDevAttrPageableMemoryAccess,
                               device.index),
        "cudaDeviceGetAttribute");
  if (reads_host_memory == 0) return false;
  cudaPointerAttributes memory{};
  check(cudaPointerGetAttributes(&memory, x.raw()), "cudaPointerGetAttributes");
  return memory.type == cudaMemoryTypeUnregistered;
}

void enqueue(cudaStream_t queue, const TensorView& x, const TensorView& y) {
  if (x.is_dense() && y.is_dense()) {
    check(cudaMemcpyAsync(y.raw(), x.raw(), x.bytes(), cudaMemcpyDefault, queue),
          "cudaMemcpyAsync");
    return;
  }
  const std::size_t element = size_of(x.dtype());
  const auto bytes = [&](std::int64_t n) {
    return static_cast<std::size_t>(n) * element;
  };
  check(cudaMemcpy2DAsync(y.raw(), bytes(y.stride(0)), x.raw(), bytes(x.stride(0)),
                          bytes(x.dim(1)), static_cast<std::size_t>(x.dim(0)),
                          cudaMemcpyDefault, queue),
        "cudaMemcpy2DAsync");
}

}  // namespace

void enqueue_copy(Stream& stream, const TensorView& x, const TensorView& y) {
  enqueue(static_cast<cudaStream_t>(stream.native()), x, y);
  if (x.device().is_host() && y.device().is_cuda() && reads_later(y.device(), x))
    stream.synchronize();
}

void* allocate_device_memory(Device device, std::size_t bytes) {
  use_device(device);
  void* memory = nullptr;
  const cudaError_t code = cudaMalloc(&memory, bytes);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(code, "cudaMalloc");
  Stream stream(device);
  check(cudaMemsetAsync(memory, 0, bytes, static_cast<cudaStream_t>(stream.native())),
        "cudaMemsetAsync");
  stream.synchronize();  // other queues may use it at once
  return memory;
}

// cudaFree() returns when the GPU is idle. While an exception passes it may never be: a
// collective may wait there for a rank that will not come, and the error would not be
// told. The memory is then left to the end of the process.
void free_device_memory(Device, void* memory) noexcept {
  if (std::uncaught_exceptions() == 0) cudaFree(memory);
}

void* allocate_pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t code = cudaMallocHost(&memory, bytes);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(code, "cudaMallocHost");
  std::memset(memory, 0, bytes);
  return memory;
}

// As free_device_memory(): cudaFreeHost() may wait as well.
void free_pinned_memory(void* memory) noexcept {
  if (std::uncaught_exceptions() == 0) cudaFreeHost(memory);
}

DeviceMemoryState device_memory_state(Device device) {
  DeviceMemoryState state;
  if (!device.is_cuda()) return state;
  use_device(device);
  check(cudaMemGetInfo(&state.free_bytes, &state.total_bytes), "cudaMemGetInfo");
  return state;
}

}  // namespace trireme
