// CallWatch: ends the job where a call of NCCL does not return.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "comm/mpi/state.hpp"

namespace trireme::comm {

// While the host is in such a call it hears of nothing: its messages stand still, and so
// does the patience of its waits (DevicePatience). A thread of its own looks at the clock
// instead, and makes the same report. It calls no MPI but MPI_Abort, as its last act.
class CallWatch {
 public:
  // The one of this process; it lives as long as someone holds it.
  static std::shared_ptr<CallWatch> get();
  CallWatch();
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // As long as it lives, the calling thread, the only one that makes such calls, is in
  // `call` for `what`, both of which outlive it. After the world's time-out the job ends
  // with Status::hang and a message that names both.
  class Scope {
   public:
    Scope(CallWatch& watch, const WorldState& state, const char* call,
          const std::string& what);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    CallWatch& watch_;
  };

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  [[noreturn]] void report(double waited) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  const WorldState* state_ = nullptr;  // in a call
  const char* call_ = nullptr;
  const std::string* what_ = nullptr;
  double seconds_ = 0;
  Clock::time_point start_;
  std::thread thread_;
};

}  // namespace trireme::comm
