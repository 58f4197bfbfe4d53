// The emulated runtime: errors, versions and the one device.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "kernels/cuda_emulation/api_call.hpp"
#include "kernels/cuda_emulation/block.hpp"
#include "kernels/cuda_emulation/device_memory.hpp"
#include "kernels/cuda_emulation/devices.hpp"
#include "kernels/cuda_emulation/loading.hpp"
#include "kernels/cuda_emulation/settings.hpp"

using namespace trireme::cuda_emulation;

namespace trireme::cuda_emulation {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
#define TRIREME_ERROR(error, text) \
  { error, #error, text }
constexpr ErrorText error_texts[] = {
    TRIREME_ERROR(cudaSuccess, "no error"),
    TRIREME_ERROR(cudaErrorInvalidValue, "invalid argument"),
    TRIREME_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    TRIREME_ERROR(cudaErrorInitializationError, "initialization error"),
    TRIREME_ERROR(cudaErrorCudartUnloading, "driver shutting down"),
    TRIREME_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    TRIREME_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    TRIREME_ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    TRIREME_ERROR(cudaErrorInvalidDevicePointer, "invalid device pointer"),
    TRIREME_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    TRIREME_ERROR(cudaErrorInsufficientDriver,
                  "CUDA driver version is insufficient for CUDA runtime version"),
    TRIREME_ERROR(cudaErrorDevicesUnavailable,
                  "CUDA-capable device(s) is/are busy or unavailable"),
    TRIREME_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    TRIREME_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    TRIREME_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    TRIREME_ERROR(cudaErrorNoKernelImageForDevice,
                  "no kernel image is available for execution on the device"),
    TRIREME_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    TRIREME_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    TRIREME_ERROR(cudaErrorIllegalState,
                  "the operation cannot be performed in the present state"),
    TRIREME_ERROR(cudaErrorNotReady, "device not ready"),
    TRIREME_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    TRIREME_ERROR(cudaErrorLaunchOutOfResources,
                  "too many resources requested for launch"),
    TRIREME_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    TRIREME_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                  "part or all of the requested memory range is already mapped"),
    TRIREME_ERROR(cudaErrorHostMemoryNotRegistered,
                  "pointer does not correspond to a registered memory region"),
    TRIREME_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    TRIREME_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    TRIREME_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    TRIREME_ERROR(cudaErrorNotSupported, "operation not supported"),
    TRIREME_ERROR(cudaErrorStreamCaptureUnsupported,
                  "operation not permitted when stream is capturing"),
    TRIREME_ERROR(cudaErrorStreamCaptureInvalidated,
                  "operation failed due to a previous error during capture"),
    TRIREME_ERROR(cudaErrorStreamCaptureMerge,
                  "operation would result in a merge of separate capture sequences"),
    TRIREME_ERROR(cudaErrorStreamCaptureUnmatched,
                  "capture was not ended in the same stream as it began"),
    TRIREME_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    TRIREME_ERROR(cudaErrorStreamCaptureIsolation,
                  "dependency created on uncaptured work in another stream"),
    TRIREME_ERROR(cudaErrorStreamCaptureImplicit,
                  "operation would make the legacy stream depend on a capturing "
                  "blocking stream"),
    TRIREME_ERROR(cudaErrorCapturedEvent,
                  "operation not permitted on an event last recorded in a capturing "
                  "stream"),
    TRIREME_ERROR(cudaErrorStreamCaptureWrongThread,
                  "attempt to terminate a thread-local capture sequence from another "
                  "thread"),
    TRIREME_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef TRIREME_ERROR

const ErrorText* find_text(cudaError_t error) {
  for (const ErrorText& entry : error_texts) {
    if (entry.error == error) return &entry;
  }
  return nullptr;
}

cudaDeviceProp describe_device(int number) {
  cudaDeviceProp device{};
  std::strcpy(device.name, "emulated");
  device.totalGlobalMem = device_bytes;
  device.sharedMemPerBlock = 49152;
  device.regsPerBlock = 65536;
  device.warpSize = 32;
  device.maxThreadsPerBlock = most_threads;
  for (int i = 0; i < 3; ++i) {
    device.maxThreadsDim[i] = i == 2 ? 64 : 1024;
    device.maxGridSize[i] = i == 0 ? 2147483647 : 65535;
  }
  device.totalConstMem = 65536;
  const Limits& most = limits();
  device.major = most.major;
  device.minor = most.minor;
  device.multiProcessorCount = 4;
  device.canMapHostMemory = 1;
  device.concurrentKernels = 1;
  device.pciBusID = 1 + card_of(number);
  device.uuid.bytes[15] = static_cast<char>(1 + number);
  device.asyncEngineCount = 2;
  device.unifiedAddressing = 1;
  device.memoryBusWidth = 1024;
  device.l2CacheSize = 50 << 20;
  device.maxThreadsPerMultiProcessor = most.threads_per_multiprocessor;
  device.streamPrioritiesSupported = 1;
  device.sharedMemPerMultiprocessor = most.shared_per_multiprocessor;
  device.regsPerMultiprocessor = 65536;
  device.sharedMemPerBlockOptin = most.shared_per_block;
  device.maxBlocksPerMultiProcessor = most.blocks_per_multiprocessor;
  device.reservedSharedMemPerBlock = 1024;
  device.memoryPoolsSupported = 1;
  return device;
}

bool attribute(const cudaDeviceProp& device, cudaDeviceAttr which, int& value) {
  const std::pair<cudaDeviceAttr, int> values[] = {
      {cudaDevAttrMaxThreadsPerBlock, device.maxThreadsPerBlock},
      {cudaDevAttrMaxBlockDimX, device.maxThreadsDim[0]},
      {cudaDevAttrMaxBlockDimY, device.maxThreadsDim[1]},
      {cudaDevAttrMaxBlockDimZ, device.maxThreadsDim[2]},
      {cudaDevAttrMaxGridDimX, device.maxGridSize[0]},
      {cudaDevAttrMaxGridDimY, device.maxGridSize[1]},
      {cudaDevAttrMaxGridDimZ, device.maxGridSize[2]},
      {cudaDevAttrMaxSharedMemoryPerBlock, static_cast<int>(device.sharedMemPerBlock)},
      {cudaDevAttrWarpSize, device.warpSize},
      {cudaDevAttrMaxRegistersPerBlock, device.regsPerBlock},
      {cudaDevAttrClockRate, 1000000},        // kHz
      {cudaDevAttrMemoryClockRate, 1000000},  // kHz
      {cudaDevAttrMultiProcessorCount, device.multiProcessorCount},
      {cudaDevAttrEccEnabled, device.ECCEnabled},
      {cudaDevAttrPciBusId, device.pciBusID},
      {cudaDevAttrPciDeviceId, device.pciDeviceID},
      {cudaDevAttrPciDomainId, device.pciDomainID},
      {cudaDevAttrGlobalMemoryBusWidth, device.memoryBusWidth},
      {cudaDevAttrL2CacheSize, device.l2CacheSize},
      {cudaDevAttrMaxThreadsPerMultiProcessor, device.maxThreadsPerMultiProcessor},
      {cudaDevAttrUnifiedAddressing, device.unifiedAddressing},
      {cudaDevAttrComputeCapabilityMajor, device.major},
      {cudaDevAttrComputeCapabilityMinor, device.minor},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor,
       static_cast<int>(device.sharedMemPerMultiprocessor)},
      {cudaDevAttrMaxRegistersPerMultiprocessor, device.regsPerMultiprocessor},
      {cudaDevAttrPageableMemoryAccess,
       settings().reads_host_pages ? 1 : device.pageableMemoryAccess},
      {cudaDevAttrCooperativeLaunch, device.cooperativeLaunch},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin,
       static_cast<int>(device.sharedMemPerBlockOptin)},
      {cudaDevAttrMaxBlocksPerMultiprocessor, device.maxBlocksPerMultiProcessor},
      {cudaDevAttrReservedSharedMemoryPerBlock,
       static_cast<int>(device.reservedSharedMemPerBlock)},
      {cudaDevAttrMemoryPoolsSupported, device.memoryPoolsSupported},
  };
  for (const auto& [id, number] : values) {
    if (id != which) continue;
    value = number;
    return true;
  }
  return false;
}

template <class T>
cudaError_t give(T* to, T value) {
  if (to == nullptr) return remember(cudaErrorInvalidValue);
  *to = value;
  return cudaSuccess;
}

}  // namespace

std::recursive_mutex& api_mutex() {
  static std::recursive_mutex& mutex = *new std::recursive_mutex;
  return mutex;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace trireme::cuda_emulation

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* entry = find_text(error);
  return entry == nullptr ? "unrecognized error code" : entry->name;
}
const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* entry = find_text(error);
  return entry == nullptr ? "unrecognized error code" : entry->text;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaGetDeviceCount(int* count) {
  note_first_call();
  return give(count, device_count());
}
cudaError_t cudaSetDevice(int device) {
  note_first_call();
  return remember(set_current_device(device));
}
cudaError_t cudaGetDevice(int* device) { return give(device, current_device()); }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count()) return remember(cudaErrorInvalidDevice);
  return give(properties, describe_device(device));
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  if (device < 0 || device >= device_count()) return remember(cudaErrorInvalidDevice);
  int number = 0;
  if (!attribute(describe_device(device), which, number))
    return remember(cudaErrorInvalidValue);
  return give(value, number);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (device < 0 || device >= device_count()) return remember(cudaErrorInvalidDevice);
  if (text == nullptr || length < 13) return remember(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0",
                1 + card_of(device));
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) { return give(version, CUDART_VERSION); }
cudaError_t cudaDriverGetVersion(int* version) { return give(version, CUDART_VERSION); }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}
