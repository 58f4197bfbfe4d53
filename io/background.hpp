// One piece of work at a time in a thread of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <future>

namespace trireme::io {

// The thread runs at low priority and takes no signals. The work must not call MPI.
// Destroyed, it waits; what the work threw is then lost.
class Background {
 public:
  // own_thread = false: the work waits for finish(), which does it. Throws
  // Error(internal) when work that was started has not been finished.
  void start(std::function<void()> work, bool own_thread = true);
  // Says whether a thread is still at work.
  bool busy() const;
  // Waits for the end of the work, and throws what it threw. Nothing to do: returns.
  void finish();

 private:
  std::future<void> work_;
};

}  // namespace trireme::io
