// Watchdog. Its thread calls no MPI but MPI_Abort, as its last act.
// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "comm/abort.hpp"
#include "comm/mpi/state.hpp"

namespace trireme::comm {

Watchdog::Watchdog(World& world, double seconds) : world_(world), seconds_(seconds) {
  if (seconds_ > 0) thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::beat(const char* what) {
  last_beat_ = Clock::now().time_since_epoch().count();
  what_ = what;
}

void Watchdog::pause() { what_ = nullptr; }

void Watchdog::run() {
  const auto interval = std::chrono::duration<double>(std::min(seconds_ / 8, 1.0));
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, interval, [this] { return ending_; })) look();
}

void Watchdog::look() {
  const char* what = what_;
  if (what == nullptr) return;
  const Clock::rep now = Clock::now().time_since_epoch().count();
  if (world_.state().waiting) {
    last_beat_ = now;
    return;
  }
  const double silent =
      std::chrono::duration<double>(Clock::duration(now - last_beat_)).count();
  if (silent <= seconds_) return;
  log::error(
      format("trireme: error: rank {} (host {}) made no progress for {} s in '{}' "
             "(health.watchdog_seconds = {})",
             world_.rank(), world_.host(), fixed(silent, 1), what, exact(seconds_)));
  abort_job(Status::hang);
}

}  // namespace trireme::comm
