// Streams and events through the CUDA runtime.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <mutex>
#include <utility>

#include "base/cuda/check.hpp"
#include "base/cuda/prepare.hpp"
#include "base/device_wait.hpp"
#include "base/event.hpp"
#include "base/use_device.hpp"

namespace trireme {

void use_device(Device device) {
  cuda::prepare();
  if (device.is_cuda()) cuda::check(cudaSetDevice(device.index), "cudaSetDevice");
}

namespace {

using cuda::check;

cudaStream_t stream_of(void* native) { return static_cast<cudaStream_t>(native); }
cudaEvent_t event_of(void* native) { return static_cast<cudaEvent_t>(native); }

// What a query answers.
bool has_come(cudaError_t code, const char* call) {
  if (code == cudaErrorNotReady) {
    cudaGetLastError();  // the runtime keeps it as the last error
    return false;
  }
  check(code, call);
  return true;
}

// The queue on which this process computes on a GPU. It lives as long as the process: the
// driver may be gone before a destructor of ours would run.
void* compute_queue(int index) {
  static std::mutex mutex;
  static std::map<int, cudaStream_t> queues;
  const std::lock_guard lock(mutex);
  const auto found = queues.find(index);
  if (found != queues.end()) return found->second;
  use_device(Device::cuda(index));
  cudaStream_t queue = nullptr;
  check(cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking),
        "cudaStreamCreateWithFlags");
  return queues[index] = queue;
}

}  // namespace

Stream::Stream(Device device) : device_(device) {
  if (device.is_cuda()) native_ = compute_queue(device.index);
}

void Stream::synchronize() {
  if (native_ == nullptr) return;
  if (const auto idle = start_device_wait()) {
    while (!has_come(cudaStreamQuery(stream_of(native_)), "cudaStreamQuery")) idle();
    return;
  }
  check(cudaStreamSynchronize(stream_of(native_)), "cudaStreamSynchronize");
}

Event::Event(Device device, Timing timing) {
  if (!device.is_cuda()) return;
  use_device(device);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(
            &event, timing == Timing::yes ? cudaEventDefault : cudaEventDisableTiming),
        "cudaEventCreateWithFlags");
  native_ = event;
}

Event::Event(Event&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(native_, other.native_);
  return *this;
}

Event::~Event() {
  if (native_ != nullptr) cudaEventDestroy(event_of(native_));
}

void Event::record(const Stream& stream) {
  if (native_ == nullptr) return;
  check(cudaEventRecord(event_of(native_), stream_of(stream.native())),
        "cudaEventRecord");
}

void Event::hold(Stream& stream) const {
  if (native_ == nullptr || stream.native() == nullptr) return;
  check(cudaStreamWaitEvent(stream_of(stream.native()), event_of(native_), 0),
        "cudaStreamWaitEvent");
}

bool Event::passed() const {
  if (native_ == nullptr) return true;
  return has_come(cudaEventQuery(event_of(native_)), "cudaEventQuery");
}

void Event::synchronize() const {
  if (native_ == nullptr) return;
  if (const auto idle = start_device_wait()) {
    while (!passed()) idle();
    return;
  }
  check(cudaEventSynchronize(event_of(native_)), "cudaEventSynchronize");
}

double Event::seconds_since(const Event& start) const {
  if (native_ == nullptr || start.native_ == nullptr) return 0;
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, event_of(start.native_), event_of(native_)),
        "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

SideStream::SideStream(Device device) : stream_(device) {
  if (!device.is_cuda()) return;
  use_device(device);
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
        "cudaDeviceGetStreamPriorityRange");
  cudaStream_t queue = nullptr;
  check(cudaStreamCreateWithPriority(&queue, cudaStreamNonBlocking, highest),
        "cudaStreamCreateWithPriority");
  stream_ = Stream(device, queue);
  owned_ = true;
}

SideStream::SideStream(SideStream&& other) noexcept
    : stream_(other.stream_), owned_(std::exchange(other.owned_, false)) {}

SideStream::~SideStream() {
  if (owned_) cudaStreamDestroy(stream_of(stream_.native()));
}

}  // namespace trireme
