// ActionTimes: how long the actions of a schedule take, without waiting for others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "engine/device_clock.hpp"

namespace trireme::engine {

class ActionTimes {
 public:
  explicit ActionTimes(Device device) : clock_(device) {}

  // A run begins: what was measured before is forgotten.
  void begin(const Stream& stream) {
    clock_.reset();
    spans_.clear();
    begin_ = clock_.mark(stream);
  }
  // Runs `body`, one action of the schedule. The waits in it come before it in the list.
  template <class Body>
  void action(const Stream& stream, const Body& body) {
    add(false, stream, body);
  }
  // Runs `body`, which waits for another stage, inside an action.
  template <class Body>
  void wait(const Stream& stream, const Body& body) {
    add(true, stream, body);
  }
  // The run has ended, as far as the queue goes.
  void end(const Stream& stream) { end_ = clock_.mark(stream); }
  // Adds the spans up. The device has come to the end.
  void sum();

  // Of the last run: seconds in all, and without waiting for other stages.
  double run_seconds() const { return run_seconds_; }
  double busy_seconds() const { return run_seconds_ - idle_seconds_; }
  // Of each action, without waiting for other stages.
  const std::vector<double>& action_seconds() const { return action_seconds_; }

 private:
  // An action, or a wait inside the next one, between two marks of the clock.
  struct Span {
    bool is_wait = false;
    std::size_t begin = 0, end = 0;
  };

  template <class Body>
  void add(bool is_wait, const Stream& stream, const Body& body) {
    const std::size_t begin = clock_.mark(stream);
    body();
    spans_.push_back({is_wait, begin, clock_.mark(stream)});
  }

  DeviceClock clock_;
  std::vector<Span> spans_;
  std::size_t begin_ = 0, end_ = 0;
  std::vector<double> action_seconds_;
  double run_seconds_ = 0, idle_seconds_ = 0;
};

}  // namespace trireme::engine
