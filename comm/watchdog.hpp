// Watchdog: ends the job when a rank stops making progress outside collectives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "comm/world.hpp"

namespace trireme::comm {

// A thread that reports the rank and its phase, and ends the job with Status::hang, when
// no beat has come for `seconds` (0: never). Time spent waiting in collectives does not
// count: there the ranks that are waited for are at fault, and World::set_timeout is in
// charge. The report lists the collectives in flight. The thread also ends the job when a
// collective between GPUs fails.
class Watchdog {
 public:
  Watchdog(World& world, double seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Progress: the rank now does `what`, a string that lives as long as the watchdog.
  // Starts the clock, also after pause().
  void beat(const char* what);
  // Stops the clock, for work without a known length.
  void pause();

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void look();
  void look_at_devices();

  World& world_;
  double seconds_;
  std::atomic<const char*> what_{nullptr};  // nullptr: paused
  std::atomic<Clock::rep> last_beat_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace trireme::comm
