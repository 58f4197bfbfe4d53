// Memory of devices, and copies between them and the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/device.hpp"
#include "base/tensor_view.hpp"

namespace trireme {

// y = x, byte for byte, in the stream's order: dense tensors, or matrices with strided
// rows, of one shape and dtype, each on the host or on the stream's device. Nothing on
// meta.
// Async: `x` on the host may be reused at once unless it is pinned (then when the stream
// has come this far). With `y` on the host the call returns when the bytes are there.
// Throws Error(transport) for an error of the device.
void copy_bytes(Stream& stream, const TensorView& x, const TensorView& y);

// The same to pinned host memory, without waiting: the bytes are there once the stream
// has come this far.
void copy_bytes_later(Stream& stream, const TensorView& x, const TensorView& y);

// The copy itself, of a back end: checked, and one of the two is on a GPU.
void enqueue_copy(Stream& stream, const TensorView& x, const TensorView& y);

// What Buffer allocates: zero-filled bytes on `device` (a GPU), or host memory that
// devices reach directly; nullptr when they cannot be allocated.
void* allocate_device_memory(Device device, std::size_t bytes);
void free_device_memory(Device device, void* memory) noexcept;
void* allocate_pinned_memory(std::size_t bytes);
void free_pinned_memory(void* memory) noexcept;

// Bytes of a GPU's memory that are free and that there are, other processes counted.
struct DeviceMemoryState {
  std::size_t free_bytes = 0, total_bytes = 0;
};
DeviceMemoryState device_memory_state(Device device);

}  // namespace trireme
