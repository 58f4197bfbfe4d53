// Devices, streams and memory of a build without CUDA: the host's.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>

#include "base/cuda/prepare.hpp"
#include "base/cuda/ranges.hpp"
#include "base/cuda_devices.hpp"
#include "base/device_memory.hpp"
#include "base/device_profiler.hpp"
#include "base/error.hpp"
#include "base/event.hpp"
#include "base/graph.hpp"
#include "base/use_device.hpp"

namespace trireme {

std::vector<CudaDevice> cuda_devices() { return {}; }
int count_cuda_devices() { return 0; }
std::string outdated_driver() { return ""; }
std::string cuda_version() { return "not built in"; }

void cuda::prepare() {}
void use_device(Device) {}

Stream::Stream(Device device) : device_(device) {
  require(!device.is_cuda(), Status::resources,
          "this program was built without CUDA: build it with -DTRIREME_CUDA=ON");
}
void Stream::synchronize() {}

Event::Event(Device, Timing) {}
Event::Event(Event&&) noexcept {}
Event& Event::operator=(Event&&) noexcept { return *this; }
Event::~Event() = default;
void Event::record(const Stream&) {}
void Event::hold(Stream&) const {}
bool Event::passed() const { return true; }
void Event::synchronize() const {}
double Event::seconds_since(const Event&) const { return 0; }

SideStream::SideStream(Device device) : stream_(device) {}
SideStream::SideStream(SideStream&& other) noexcept : stream_(other.stream_) {}
SideStream::~SideStream() = default;

Graph Graph::record(Stream&, const std::function<void()>&) {
  fail(Status::resources,
       "a graph was recorded, but this program was built without CUDA");
}
Graph::Graph(Graph&&) noexcept {}
Graph& Graph::operator=(Graph&&) noexcept { return *this; }
Graph::~Graph() = default;
void Graph::launch(Stream&) const {}

void cuda::push_range(const char*) {}
void cuda::pop_range() {}
void start_device_profiler(Device) {}
void stop_device_profiler(Device) {}

void* allocate_device_memory(Device, std::size_t) { return nullptr; }
void free_device_memory(Device, void*) noexcept {}
void* allocate_pinned_memory(std::size_t bytes) { return std::calloc(1, bytes); }
void free_pinned_memory(void* memory) noexcept { std::free(memory); }
DeviceMemoryState device_memory_state(Device) { return {}; }

}  // namespace trireme
