// DeviceClock: when a device came to points of its queue.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "base/event.hpp"
#include "base/work_meter.hpp"

namespace trireme::engine {

// On a host a mark is taken at once; on meta it is the time of a plan's meter, if there
// is one; on a GPU when the queue has come to it, so that what is between two marks is
// the device's time and not that of filling its queue. Marks are made once and used again
// after reset().
class DeviceClock {
 public:
  explicit DeviceClock(Device device) : device_(device) {}

  void reset() { marks_ = 0; }
  // Marks where `stream` is; returns the mark's number.
  std::size_t mark(const Stream& stream) {
    const std::size_t number = marks_++;
    if (device_.is_meta()) {
      planned_.resize(std::max(planned_.size(), marks_));
      planned_[number] = work_meter() != nullptr ? work_meter()->seconds() : 0;
      return number;
    }
    if (!device_.is_cuda()) {
      times_.resize(std::max(times_.size(), marks_));
      times_[number] = Clock::now();
      return number;
    }
    if (events_.size() < marks_) events_.emplace_back(device_, Event::Timing::yes);
    events_[number].record(stream);
    return number;
  }
  // Seconds from one mark to another; both have passed.
  double seconds(std::size_t from, std::size_t to) const {
    if (device_.is_meta()) return planned_[to] - planned_[from];
    if (device_.is_cuda()) return events_[to].seconds_since(events_[from]);
    return std::chrono::duration<double>(times_[to] - times_[from]).count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  Device device_;
  std::size_t marks_ = 0;
  std::vector<Clock::time_point> times_;
  std::vector<double> planned_;
  std::vector<Event> events_;
};

}  // namespace trireme::engine
