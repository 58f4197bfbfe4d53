// Event and SideStream: order between the queues of a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"

namespace trireme {

// A point in a stream that other streams and the host can wait for. On host and meta it
// has always passed. Errors: Error(transport).
class Event {
 public:
  enum class Timing : bool { no, yes };

  explicit Event(Device device = Device::host(), Timing timing = Timing::no);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  // From now on the point is where `stream` has come to.
  void record(const Stream& stream);
  // Work queued on `stream` from here on starts after the point.
  void hold(Stream& stream) const;
  // Whether the point has passed. True before the first record().
  bool passed() const;
  // Returns when it has.
  void synchronize() const;
  // Seconds from `start` to this point; both timed and passed. 0 on host and meta.
  double seconds_since(const Event& start) const;

 private:
  void* native_ = nullptr;  // cudaEvent_t
};

// A queue beside the one on which a device computes, for copies and messages; of higher
// priority, so that what it sends is not held up by computation. On host and meta the
// stream is an ordinary one.
class SideStream {
 public:
  explicit SideStream(Device device);
  SideStream(SideStream&& other) noexcept;
  SideStream& operator=(SideStream&&) = delete;
  ~SideStream();

  Stream& stream() { return stream_; }

 private:
  Stream stream_;
  bool owned_ = false;
};

}  // namespace trireme
