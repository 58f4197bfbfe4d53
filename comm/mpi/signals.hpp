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

// SIGUSR1 and SIGTERM set the flag of stop_requested(). Fatal signals write one line that
// names the rank, its phase and step; then the process ends with Status::internal, or by
// the signal itself where that leaves a core dump. The handlers before are restored at
// the end.
class SignalHandlers {
 public:
  explicit SignalHandlers(int rank);
  ~SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;

  static constexpr std::array<int, 7> signals = {SIGUSR1, SIGTERM, SIGSEGV, SIGBUS,
                                                 SIGFPE,  SIGILL,  SIGABRT};

 private:
  std::array<struct sigaction, signals.size()> before_{};
  stack_t stack_before_{};
};

}  // namespace trireme::comm
