// What a rank says when a fault ends it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>
#include <cstdint>

namespace trireme::comm {

// For the line of a fatal signal: what the rank does, a string that lives for good, and
// the steps it has done.
void note_phase(const char* phase, std::int64_t step);

// Fatal signals write one line that names the rank, its phase and step; then the process
// ends with Status::internal, or by the signal itself where that leaves a core dump. The
// handlers run on alternate stacks (base/thread_signals.hpp). Those before are restored
// at the end.
class FatalSignals {
 public:
  explicit FatalSignals(int rank);
  ~FatalSignals();
  FatalSignals(const FatalSignals&) = delete;
  FatalSignals& operator=(const FatalSignals&) = delete;

  static constexpr std::array<int, 5> signals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                                                 SIGABRT};

 private:
  std::array<struct sigaction, signals.size()> before_{};
};

}  // namespace trireme::comm
