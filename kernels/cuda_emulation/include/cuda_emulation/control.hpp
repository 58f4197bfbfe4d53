// Control of the emulated device, for tests and emulated libraries.
// SPDX-License-Identifier: Apache-2.0
// These functions go beyond CUDA's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "cuda_emulation/api_types.hpp"

namespace trireme::cuda_emulation {

// The order of threads and blocks: forward, reverse, or a random one from a seed.
struct Order {
  enum class Kind { forward, reverse, shuffle } kind = Kind::forward;
  std::uint64_t seed = 0;
};

// What TRIREME_EMULATION_ORDER and TRIREME_EMULATION_STREAMS say, until a test sets it.
// Settings are read when work runs.
void set_order(Order order);
void set_lazy_streams(bool lazy);
Order order();
bool lazy_streams();

// Bytes of device memory now allocated, and the most at any time since
// reset_peak_bytes().
std::size_t used_bytes();
std::size_t peak_bytes();
void reset_peak_bytes();

// What TRIREME_EMULATION_CAPABILITY says, until a test sets it: 8.0, 8.6, 8.9, 9.0, 10.0
// or 12.0.
void set_capability(int major, int minor);
// Whether devices read pageable memory of the host by themselves, when a copy runs (as
// with Grace); by default it is read at once, as CUDA stages it.
void set_reads_host_pages(bool reads);
// Devices on which this process has a context.
int contexts();

// Whether the first launch of a kernel waits until the device is idle
// (TRIREME_EMULATION_LOADING = lazy); it does not by default. Kernels of libraries have
// numbers of their own.
void load_library_kernel(std::uint64_t which);
// From now on, in place of what the environment says; kernels of the program are loaded
// at their first launch, too, as without CUDA_MODULE_LOADING=EAGER.
void set_lazy_loading(bool lazy);
// Every kernel is loaded anew at its next launch.
void forget_loaded_kernels();

// Queues a host function that may touch device memory, as a library's kernel would. It
// must not call the CUDA runtime.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

// Launches of graphs since start.
std::int64_t graph_launches();
// How often the host has waited for work that had not ended: for a stream, an event, or a
// copy to pageable memory. It asks a stream again and again in one wait; to ask an event
// is none.
std::int64_t host_waits();

// Calls since start that cost a real driver time: that allocate pinned memory of the
// host, record events, and have a stream wait for one.
struct Calls {
  std::int64_t host_allocations = 0, event_records = 0, event_waits = 0;
};
Calls calls();

// Whether all of [address, address + bytes) lies in one device allocation.
bool is_device_range(const void* address, std::size_t bytes);

// Checks what surrounds every allocation, as cudaDeviceSynchronize does; ends the process
// with a message where something was overwritten.
void check_device_memory();

}  // namespace trireme::cuda_emulation
