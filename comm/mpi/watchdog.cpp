// Watchdog. Its thread calls no MPI but MPI_Abort, as its last act.
// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "comm/abort.hpp"
#include "comm/async_errors.hpp"
#include "comm/mpi/state.hpp"
#include "comm/trace.hpp"

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
  look_at_devices();
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
  // A host that waits for its GPU may wait for a collective there that a peer has not
  // joined: the oldest of those in flight is the one.
  const std::string in_flight = trace().in_flight(8);
  log::error(format(
      "trireme: error: rank {} (host {}) made no progress for {} s in '{}' "
      "(health.watchdog_seconds = {}){}{}",
      world_.rank(), world_.host(), fixed(silent, 1), what, exact(seconds_),
      in_flight.empty() ? "" : "\ncollectives of this rank in flight, oldest first:",
      in_flight));
  abort_job(Status::hang);
}

// The main thread may be blocked: what failed on the GPU is reported from here. Lower
// ranks speak first, and their abort ends the others before they report the same.
void Watchdog::look_at_devices() {
  try {
    async_errors().look();
  } catch (const Error& error) {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::min(30 * world_.rank(), 2000)));
    log::error(format("trireme: error: rank {} (host {}): {}", world_.rank(),
                      world_.host(), error.what()));
    abort_job(error.status());
  }
}

}  // namespace trireme::comm
