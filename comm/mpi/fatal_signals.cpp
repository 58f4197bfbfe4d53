// Handlers of fatal signals: only async-signal-safe calls are made in them.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/fatal_signals.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/terminal.hpp"
#include "base/thread_signals.hpp"

namespace trireme::comm {
namespace {

std::array<char, 48> fatal_prefix{};
std::size_t fatal_prefix_length = 0;
std::atomic<const char*> fatal_phase{nullptr};
std::atomic<std::int64_t> fatal_step{0};
bool leaves_core = false;

std::string_view fatal_text(int signal) {
  switch (signal) {
    case SIGSEGV: return "killed by SIGSEGV: invalid memory access";
    case SIGBUS: return "killed by SIGBUS: memory or file behind it is gone";
    case SIGFPE: return "killed by SIGFPE: illegal arithmetic";
    case SIGILL: return "killed by SIGILL: built for another processor?";
    default: return "killed by SIGABRT";
  }
}

// A line of bounded length, made without the heap.
struct Line {
  std::array<char, 256> text;
  std::size_t length = 0;

  void add(std::string_view more) {
    const std::size_t count = std::min(more.size(), text.size() - length);
    std::copy_n(more.begin(), count, text.begin() + static_cast<std::ptrdiff_t>(length));
    length += count;
  }
  void add(std::int64_t number) {
    std::array<char, 20> digits;
    std::size_t first = digits.size();
    do {
      digits[--first] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0 && first > 0);
    add({digits.data() + first, digits.size() - first});
  }
};

void report_fatal(int signal) {
  terminal::restore_modes();
  Line line;
  line.add({fatal_prefix.data(), fatal_prefix_length});
  line.add(fatal_text(signal));
  if (const char* phase = fatal_phase) {
    line.add(" in '");
    line.add(std::string_view(phase));
    line.add("' after ");
    line.add(fatal_step.load());
    line.add(" steps");
  }
  line.add("\n");
  // One write, so that lines of several ranks do not mix.
  if (::write(STDERR_FILENO, line.text.data(), line.length) < 0) {
  }
  if (!leaves_core) ::_exit(static_cast<int>(Status::internal));
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// A sanitizer's own handlers say more than ours.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

}  // namespace

FatalSignals::FatalSignals(int rank) {
  const std::string prefix = "trireme: error: rank " + std::to_string(rank) + ": ";
  fatal_prefix_length = prefix.copy(fatal_prefix.data(), fatal_prefix.size());

  rlimit core{};
  leaves_core = ::getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur > 0;

  use_signal_stack();
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = report_fatal;
  for (std::size_t i = 0; i < signals.size(); ++i)
    ::sigaction(signals[i], sanitized ? nullptr : &action, &before_[i]);
}

FatalSignals::~FatalSignals() {
  for (std::size_t i = 0; i < signals.size(); ++i)
    ::sigaction(signals[i], &before_[i], nullptr);
}

void note_phase(const char* phase, std::int64_t step) {
  fatal_phase = phase;
  fatal_step = step;
}

}  // namespace trireme::comm
