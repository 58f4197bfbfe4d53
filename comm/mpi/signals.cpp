// Signal handlers. Only async-signal-safe calls are made in them.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/signals.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "comm/save_request.hpp"
#include "comm/world.hpp"

namespace trireme::comm {
namespace {

volatile std::sig_atomic_t stop_flag = 0, save_flag = 0;
std::array<char, 48> fatal_prefix{};
std::size_t fatal_prefix_length = 0;
// A stack that overflowed cannot carry the handler. SIGSTKSZ is no constant any more.
std::array<std::byte, 32768> handler_stack;

void take_note(int signal) { (signal == SIGUSR2 ? save_flag : stop_flag) = 1; }

std::string_view fatal_text(int signal) {
  switch (signal) {
    case SIGSEGV: return "killed by SIGSEGV: invalid memory access\n";
    case SIGBUS: return "killed by SIGBUS: memory or file behind it is gone\n";
    case SIGFPE: return "killed by SIGFPE: illegal arithmetic\n";
    case SIGILL: return "killed by SIGILL: built for another processor?\n";
    default: return "killed by SIGABRT\n";
  }
}

void report_fatal(int signal) {
  std::array<char, 160> line;
  const std::string_view text = fatal_text(signal);
  std::copy_n(fatal_prefix.data(), fatal_prefix_length, line.data());
  std::copy(text.begin(), text.end(), line.data() + fatal_prefix_length);
  // One write, so that lines of several ranks do not mix.
  if (::write(STDERR_FILENO, line.data(), fatal_prefix_length + text.size()) < 0) {
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

constexpr std::array<int, 3> requests = {SIGUSR1, SIGTERM, SIGUSR2};

bool is_request(int signal) {
  return std::find(requests.begin(), requests.end(), signal) != requests.end();
}

struct sigaction handling(int signal) {
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  // Without SA_RESTART a write to a file could end half-way.
  action.sa_flags = is_request(signal) ? SA_RESTART : SA_ONSTACK;
  action.sa_handler = is_request(signal) ? take_note : report_fatal;
  return action;
}

// A sanitizer's own handlers say more than ours.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

}  // namespace

SignalHandlers::SignalHandlers(int rank) {
  const std::string prefix = "trireme: error: rank " + std::to_string(rank) + ": ";
  fatal_prefix_length = prefix.copy(fatal_prefix.data(), fatal_prefix.size());

  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  ::sigaltstack(&stack, &stack_before_);

  for (std::size_t i = 0; i < signals.size(); ++i) {
    const struct sigaction action = handling(signals[i]);
    if (sanitized && !is_request(signals[i]))
      ::sigaction(signals[i], nullptr, &before_[i]);
    else
      ::sigaction(signals[i], &action, &before_[i]);
  }
}

SignalHandlers::~SignalHandlers() {
  for (std::size_t i = 0; i < signals.size(); ++i)
    ::sigaction(signals[i], &before_[i], nullptr);
  ::sigaltstack(&stack_before_, nullptr);
}

void take_requests() {
  for (const int signal : requests) {
    const struct sigaction action = handling(signal);
    ::sigaction(signal, &action, nullptr);
  }
}

bool stop_requested() { return stop_flag != 0; }

bool take_save_request() {
  if (save_flag == 0) return false;
  save_flag = 0;  // one that comes in between asks for the same checkpoint
  return true;
}

}  // namespace trireme::comm
