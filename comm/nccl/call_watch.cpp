// CallWatch: a thread that looks at the clock while NCCL holds the host.
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/call_watch.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/stopwatch.hpp"
#include "base/thread_signals.hpp"
#include "comm/abort.hpp"
#include "comm/mpi/claim.hpp"
#include "comm/mpi/spin_wait.hpp"
#include "comm/watchdog.hpp"

namespace trireme::comm {

std::shared_ptr<CallWatch> CallWatch::get() {
  static std::weak_ptr<CallWatch> of_this_process;
  std::shared_ptr<CallWatch> watch = of_this_process.lock();
  if (!watch) of_this_process = watch = std::make_shared<CallWatch>();
  return watch;
}

CallWatch::CallWatch() {
  thread_ = std::thread([this] {
    use_signal_stack();
    run();
  });
}

CallWatch::~CallWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

CallWatch::Scope::Scope(CallWatch& watch, const WorldState& state, const char* call,
                        const std::string& what)
    : watch_(watch) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.state_ = &state;
  watch_.call_ = call;
  watch_.what_ = &what;
  watch_.seconds_ = state.timeout_seconds;
  watch_.start_ = Clock::now();
}

CallWatch::Scope::~Scope() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.state_ = nullptr;
}

// Looks often enough to be late by a tenth, and never wakes for a call: calls are many,
// and short.
void CallWatch::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const double look = state_ == nullptr ? 1.0 : std::clamp(seconds_ / 10, 0.05, 1.0);
    changed_.wait_for(lock, std::chrono::duration<double>(look));
    if (state_ == nullptr || seconds_ <= 0) continue;
    const double waited = seconds_since(start_);
    if (waited > seconds_) report(waited);
  }
}

void CallWatch::report(double waited) const {
  end_within(report_limit_seconds, Status::hang);
  dump_flight();
  if (!may_report_now()) abort_job(Status::hang);
  report_hang(
      *state_, format("{} on axis '{}'", call_, *what_), waited,
      "NCCL waits for another rank or for the network: NCCL_DEBUG=INFO shows what "
      "it is doing");
}

}  // namespace trireme::comm
