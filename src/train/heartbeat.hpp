// Heartbeat: lines of the log while a step takes long.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace trireme::train {

// A thread of rank 0 that says, each time that `seconds` have passed since the step
// began, which step is under way, for how long, and in which part. Where nothing is said,
// or `seconds` is 0, there is no thread.
class Heartbeat {
 public:
  explicit Heartbeat(double seconds);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void begin(std::int64_t step);
  // A part of the step begins. `part` lives for ever.
  void enter(const char* part) { part_ = part; }
  void end();

 private:
  using Clock = std::chrono::steady_clock;

  void watch();

  std::chrono::duration<double> pause_;
  std::atomic<const char*> part_{""};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t step_ = 0;  // 0: none is under way
  Clock::time_point start_;
  bool leaves_ = false;
  std::thread thread_;
};

}  // namespace trireme::train
