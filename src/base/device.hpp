// Where memory lies and where work is queued.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme {

// host: this process's memory. meta: shapes only; nothing is allocated, kernels and
// collectives return at once, so that a planner can run the real model and read off
// sizes.
enum class DeviceKind : std::uint8_t { host, meta };

struct Device {
  DeviceKind kind = DeviceKind::host;

  bool is_host() const { return kind == DeviceKind::host; }
  bool is_meta() const { return kind == DeviceKind::meta; }
  bool operator==(const Device&) const = default;

  static constexpr Device host() { return {DeviceKind::host}; }
  static constexpr Device meta() { return {DeviceKind::meta}; }
};

// A queue of work on one device, in order. On the host work is done when the call
// returns.
class Stream {
 public:
  explicit Stream(Device device = Device::host()) : device_(device) {}

  Device device() const { return device_; }
  // Returns when everything queued so far is done.
  void synchronize() {}

 private:
  Device device_;
};

}  // namespace trireme
