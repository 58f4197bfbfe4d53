// The emulated runtime: copies and fills.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>

#include "kernels/cuda_emulation/api_call.hpp"
#include "kernels/cuda_emulation/device_memory.hpp"
#include "kernels/cuda_emulation/host_memory.hpp"
#include "kernels/cuda_emulation/settings.hpp"

using namespace trireme::cuda_emulation;

namespace trireme::cuda_emulation {
namespace {

// `height` rows of `width` bytes; a row begins every `pitch` bytes.
struct Rows {
  std::size_t width, height;
  std::size_t span(std::size_t pitch) const { return (height - 1) * pitch + width; }
  bool is_empty() const { return width == 0 || height == 0; }
};

void copy_rows(char* to, std::size_t to_pitch, const char* from, std::size_t from_pitch,
               Rows rows) {
  for (std::size_t i = 0; i < rows.height; ++i) {
    std::memmove(to + i * to_pitch, from + i * from_pitch, rows.width);
  }
}

bool is_side_valid(const void* address, std::size_t bytes, bool device) {
  if (address == nullptr) return false;
  const DeviceMemory& memory = DeviceMemory::get();
  return device ? memory.is_allocated(address, bytes) : !memory.is_device(address);
}

struct Copy {
  void* to;
  std::size_t to_pitch;
  const void* from;
  std::size_t from_pitch;
  Rows rows;
  bool to_device = false, from_device = false;
};

cudaError_t check(Copy& copy, cudaMemcpyKind kind) {
  if (copy.rows.width > copy.to_pitch || copy.rows.width > copy.from_pitch) {
    return cudaErrorInvalidPitchValue;
  }
  switch (kind) {
    case cudaMemcpyHostToHost: break;
    case cudaMemcpyHostToDevice: copy.to_device = true; break;
    case cudaMemcpyDeviceToHost: copy.from_device = true; break;
    case cudaMemcpyDeviceToDevice: copy.to_device = copy.from_device = true; break;
    case cudaMemcpyDefault:
      copy.to_device = DeviceMemory::get().is_device(copy.to);
      copy.from_device = DeviceMemory::get().is_device(copy.from);
      break;
    default: return cudaErrorInvalidMemcpyDirection;
  }
  if (!is_side_valid(copy.to, copy.rows.span(copy.to_pitch), copy.to_device) ||
      !is_side_valid(copy.from, copy.rows.span(copy.from_pitch), copy.from_device)) {
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

bool is_pageable(const void* address, std::size_t bytes, bool device) {
  return !device && !HostMemory::get().is_pinned(address, bytes);
}

// Queues the copy. Pageable host memory is read at once, as CUDA stages it, unless the
// device reads it by itself; pinned memory when the copy runs.
cudaError_t add_copy(CUstream_st& stream, const Copy& copy) {
  const auto& [to, to_pitch, from, from_pitch, rows, to_device, from_device] = copy;
  auto* const target = static_cast<char*>(to);
  const auto* const source = static_cast<const char*>(from);
  const std::size_t span = rows.span(from_pitch);
  if (settings().reads_host_pages || !is_pageable(from, span, from_device)) {
    return Streams::get().add(
        stream, [=] { copy_rows(target, to_pitch, source, from_pitch, rows); });
  }
  const std::shared_ptr<char[]> staged(new char[rows.width * rows.height]);
  copy_rows(staged.get(), rows.width, source, from_pitch, rows);
  return Streams::get().add(
      stream, [=] { copy_rows(target, to_pitch, staged.get(), rows.width, rows); });
}

cudaError_t copy_async(Copy copy, cudaMemcpyKind kind, cudaStream_t handle,
                       bool blocking) {
  CUstream_st* stream = Streams::get().find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (copy.rows.is_empty()) return cudaSuccess;
  const cudaError_t error = check(copy, kind);
  if (error != cudaSuccess) return error;
  const bool to_pageable =
      is_pageable(copy.to, copy.rows.span(copy.to_pitch), copy.to_device);
  const bool from_pageable =
      is_pageable(copy.from, copy.rows.span(copy.from_pitch), copy.from_device);
  if (stream->recorded.capture != nullptr && (to_pageable || from_pageable))
    return stream->recorded.capture->invalidate(cudaErrorStreamCaptureUnsupported);
  // Copies within the device do not block the host; copies to pageable memory always do.
  const bool within_device = copy.to_device && copy.from_device;
  const bool waits = to_pageable || (blocking && !within_device);
  if (waits) Streams::get().begin_wait(stream, stream->done == stream->queued);
  if (const cudaError_t refused = add_copy(*stream, copy)) return refused;
  if (!waits) return cudaSuccess;
  Streams::get().end_wait();
  Streams::get().run(*stream);
  return cudaSuccess;
}

cudaError_t fill_async(void* to, std::size_t pitch, int value, Rows rows,
                       cudaStream_t handle) {
  CUstream_st* stream = Streams::get().find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (rows.is_empty()) return cudaSuccess;
  if (rows.width > pitch) return cudaErrorInvalidPitchValue;
  const bool pinned = HostMemory::get().is_pinned(to, rows.span(pitch));
  if (!pinned && !is_side_valid(to, rows.span(pitch), true)) return cudaErrorInvalidValue;
  return Streams::get().add(*stream, [=] {
    for (std::size_t i = 0; i < rows.height; ++i) {
      std::memset(static_cast<char*>(to) + i * pitch, value, rows.width);
    }
  });
}

}  // namespace
}  // namespace trireme::cuda_emulation

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes,
                       cudaMemcpyKind kind) {
  return guarded_call([&] {
    return copy_async({to, bytes, from, bytes, {bytes, 1}}, kind, nullptr, true);
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return call([&] {
    return copy_async({to, bytes, from, bytes, {bytes, 1}}, kind, stream, false);
  });
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from,
                         std::size_t from_pitch, std::size_t width, std::size_t height,
                         cudaMemcpyKind kind) {
  return guarded_call([&] {
    return copy_async({to, to_pitch, from, from_pitch, {width, height}}, kind, nullptr,
                      true);
  });
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width,
                              std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return call([&] {
    return copy_async({to, to_pitch, from, from_pitch, {width, height}}, kind, stream,
                      false);
  });
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return guarded_call([&] { return fill_async(to, bytes, value, {bytes, 1}, nullptr); });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call([&] { return fill_async(to, bytes, value, {bytes, 1}, stream); });
}
cudaError_t cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width,
                         std::size_t height) {
  return guarded_call([&] {
    return fill_async(to, pitch, value, {width, height}, nullptr);
  });
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  return call([&] { return fill_async(to, pitch, value, {width, height}, stream); });
}
