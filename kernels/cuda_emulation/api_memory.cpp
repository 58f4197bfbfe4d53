// The emulated runtime: memory of the device and pinned memory of the host.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "kernels/cuda_emulation/api_call.hpp"
#include "kernels/cuda_emulation/device_memory.hpp"
#include "kernels/cuda_emulation/host_memory.hpp"

using namespace trireme::cuda_emulation;

namespace trireme::cuda_emulation {
namespace {

cudaError_t allocate(void** address, std::size_t bytes) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  *address = DeviceMemory::get().allocate(bytes);
  if (*address == nullptr) {  // frees that are queued may help
    Streams::get().run_all();
    *address = DeviceMemory::get().allocate(bytes);
  }
  return *address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t allocate_host(void** address, std::size_t bytes) {
  if (address == nullptr) return cudaErrorInvalidValue;
  ++counted_calls().host_allocations;
  *address = bytes == 0 ? nullptr : HostMemory::get().allocate(bytes);
  return *address == nullptr && bytes != 0 ? cudaErrorMemoryAllocation : cudaSuccess;
}

}  // namespace

std::size_t used_bytes() {
  const std::lock_guard lock(api_mutex());
  return DeviceMemory::get().used();
}
std::size_t peak_bytes() {
  const std::lock_guard lock(api_mutex());
  return DeviceMemory::get().peak();
}
void reset_peak_bytes() {
  const std::lock_guard lock(api_mutex());
  DeviceMemory::get().reset_peak();
}
bool is_device_range(const void* address, std::size_t bytes) {
  const std::lock_guard lock(api_mutex());
  return DeviceMemory::get().is_allocated(address, bytes);
}
void check_device_memory() {
  const std::lock_guard lock(api_mutex());
  const OpenMemory open;
  DeviceMemory::get().check();
}

}  // namespace trireme::cuda_emulation

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return guarded_call([&] { return allocate(address, bytes); });
}

cudaError_t cudaFree(void* address) {
  return guarded_call([&] {
    Streams::get().run_all();
    if (address == nullptr || DeviceMemory::get().release(address)) return cudaSuccess;
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaMallocAsync(void** address, std::size_t bytes, cudaStream_t stream) {
  return call([&] {
    const CUstream_st* const on = Streams::get().find(stream);
    if (on == nullptr) return cudaErrorInvalidResourceHandle;
    // A graph may allocate on a real device.
    if (on->recorded.capture != nullptr) return cudaErrorNotSupported;
    return allocate(address, bytes);
  });
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  return call([&] {
    CUstream_st* stream = Streams::get().find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (address == nullptr) return cudaSuccess;
    if (!DeviceMemory::get().begins_allocation(address)) return cudaErrorInvalidValue;
    if (stream->recorded.capture != nullptr) return cudaErrorNotSupported;
    return Streams::get().add(*stream,
                              [address] { DeviceMemory::get().release(address); });
  });
}

cudaError_t cudaMallocHost(void** address, std::size_t bytes, unsigned) {
  return guarded_call([&] { return allocate_host(address, bytes); });
}

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  return guarded_call([&] { return allocate_host(address, bytes); });
}

cudaError_t cudaFreeHost(void* address) {
  return guarded_call([&] {
    Streams::get().run_all();  // copies that are queued may use it
    if (address == nullptr || HostMemory::get().release(address)) return cudaSuccess;
    return cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostRegister(void* address, std::size_t bytes, unsigned) {
  return guarded_call([&] {
    if (address == nullptr || bytes == 0) return cudaErrorInvalidValue;
    if (DeviceMemory::get().is_device(address)) return cudaErrorInvalidValue;
    return HostMemory::get().add(address, bytes) ? cudaSuccess
                                                 : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* address) {
  return guarded_call([&] {
    Streams::get().run_all();
    return HostMemory::get().remove(address) ? cudaSuccess
                                             : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call([&] {
    if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
    *free = device_bytes - DeviceMemory::get().used();
    *total = device_bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                     const void* address) {
  return call([&] {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    void* const pointer = const_cast<void*>(address);
    if (DeviceMemory::get().is_allocated(address, 1)) {
      *attributes = {cudaMemoryTypeDevice, 0, pointer, nullptr};
    } else if (HostMemory::get().is_pinned(address, 1)) {
      *attributes = {cudaMemoryTypeHost, 0, pointer, pointer};
    } else {
      *attributes = {cudaMemoryTypeUnregistered, 0, nullptr, pointer};
    }
    return cudaSuccess;
  });
}
