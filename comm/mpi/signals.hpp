// Signal handlers of a rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>
#include <cstdint>

namespace trireme::comm {

// For the line of a fatal signal: what the rank does, a string that lives for good, and
// the steps it has done.
void note_phase(const char* phase, std::int64_t step);

// SIGUSR1 and SIGTERM set the flag of stop_requested(), SIGUSR2 that of
// take_save_request(). Fatal signals write one line that names the rank, its phase and
// step; then the process ends with Status::internal, or by the signal itself where that
// leaves a core dump. The handlers before are restored at the end.
class SignalHandlers {
 public:
  explicit SignalHandlers(int rank);
  ~SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;

  static constexpr std::array<int, 8> signals = {SIGUSR1, SIGTERM, SIGUSR2, SIGSEGV,
                                                 SIGBUS,  SIGFPE,  SIGILL,  SIGABRT};

 private:
  std::array<struct sigaction, signals.size()> before_{};
  stack_t stack_before_{};
};

// Installs the handlers of SIGUSR1, SIGTERM and SIGUSR2 alone and for good: while MPI
// starts and ends, and after it, these signals must not kill the process or change its
// status.
void take_requests();

}  // namespace trireme::comm
