// One piece of work at a time in a thread of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <future>

namespace trireme::io {

// Which thread does the work: one of its own, or that which calls finish().
enum class RunIn : std::uint8_t { own_thread, caller };

// The thread runs at low priority and takes no signals. The work must not call MPI.
// Destroyed, it waits; what the work threw is then lost.
class Background {
 public:
  // Throws Error(internal) when work that was started has not been finished.
  void start(std::function<void()> work, RunIn run_in = RunIn::own_thread);
  // Says whether a thread is still at work.
  bool busy() const;
  // Waits for the end of the work, and throws what it threw. Nothing to do: returns.
  void finish();

 private:
  std::future<void> work_;
};

}  // namespace trireme::io
