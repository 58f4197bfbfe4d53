// Where memory lies and where work is queued.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme {

// host: this process's memory. cuda: a GPU's. meta: shapes only; nothing is allocated,
// kernels and collectives return at once, so that a planner can run the real model and
// read off sizes.
enum class DeviceKind : std::uint8_t { host, cuda, meta };

struct Device {
  DeviceKind kind = DeviceKind::host;
  int index = 0;  // of a GPU, among those that the process sees

  bool is_host() const { return kind == DeviceKind::host; }
  bool is_cuda() const { return kind == DeviceKind::cuda; }
  bool is_meta() const { return kind == DeviceKind::meta; }
  bool operator==(const Device&) const = default;

  static constexpr Device host() { return {DeviceKind::host}; }
  static constexpr Device cuda(int index) { return {DeviceKind::cuda, index}; }
  static constexpr Device meta() { return {DeviceKind::meta}; }
};

// A queue of work on one device, in order. On the host work is done when the call
// returns. All streams of a GPU name the one queue on which this process computes there;
// transports order their own queues around it by events. Cheap to copy.
class Stream {
 public:
  // Throws Error(transport) where the device is a GPU that cannot be used, and
  // Error(resources) in a build without CUDA.
  explicit Stream(Device device = Device::host());

  Device device() const { return device_; }
  // The cudaStream_t; nullptr on host and meta.
  void* native() const { return native_; }
  // Returns when everything queued so far is done. Throws Error(transport) for an error
  // of that work.
  void synchronize();

 private:
  friend class SideStream;
  Stream(Device device, void* native) : device_(device), native_(native) {}

  Device device_;
  void* native_ = nullptr;
};

}  // namespace trireme
