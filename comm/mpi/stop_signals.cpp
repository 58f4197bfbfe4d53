// The thread that takes signals.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/stop_signals.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "base/log.hpp"
#include "base/temporary_files.hpp"
#include "base/terminal.hpp"
#include "base/thread_signals.hpp"
#include "comm/abort.hpp"
#include "comm/mpi/state.hpp"
#include "comm/stop_signals.hpp"

namespace trireme::comm {
namespace {

constexpr std::array requests = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGXCPU};

std::atomic<int> stop_signal{0};      // the first that asked for the end; 0: none
std::atomic<int> interrupts{0};       // SIGINT so far
std::atomic<int> end_warnings{0};     // SIGUSR1 not yet taken notice of
std::atomic<bool> keeps{false};       // on SIGINT
std::atomic<int> kept_interrupts{0};  // not yet taken notice of
std::atomic<bool> save_wanted{false};
std::atomic<bool> leaves{false};  // on a stop, at once
std::atomic<bool> saves{false};   // after a stop
std::atomic<pid_t> taker{0};      // the thread, as the kernel counts

const char* name_of_signal(int signal) {
  switch (signal) {
    case SIGUSR1: return "SIGUSR1";
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGHUP: return "SIGHUP";
    case SIGXCPU: return "SIGXCPU";
    default: return "a signal";
  }
}

// The other ranks end by MPI_Abort, rank 0 before them: it writes the files.
[[noreturn]] void leave(int signal) {
  const auto status = static_cast<Status>(128 + signal);
  terminal::restore_modes();
  // The world may go meanwhile, with a main thread that ends its work.
  const WorldState* const state = current_state();
  const int rank = state == nullptr ? 0 : state->rank;
  const int size = state == nullptr ? 1 : state->size;
  // Whatever else hangs, the process ends.
  std::thread([status] {
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    ::_exit(static_cast<int>(status));
  }).detach();
  if (rank > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  else
    log::error(std::string("trireme: ended by ") + name_of_signal(signal));
  remove_temporary_files();
  std::fflush(stdout);
  if (size > 1) abort_job(status);
  ::_exit(static_cast<int>(status));
}

void say_what_an_interrupt_does() {
  const WorldState* const state = current_state();
  if (state == nullptr || state->rank == 0)
    log::error(
        "trireme: SIGINT: stopping with a checkpoint after this step; a second "
        "one leaves at once");
}

void ask_for_end(int signal) {
  if (signal == SIGINT && ++interrupts > 1) leave(signal);
  int none = 0;
  stop_signal.compare_exchange_strong(none, signal);
  if (signal == SIGINT && saves) say_what_an_interrupt_does();
}

void take(int signal) {
  if (signal == SIGUSR2) {
    save_wanted = true;
  } else if (signal == SIGINT && keeps) {
    ++kept_interrupts;
  } else if (leaves) {
    leave(signal);
  } else if (signal == SIGUSR1) {
    ++end_warnings;
  } else {
    ask_for_end(signal);
  }
}

// A thread that a library made before main() may not block the signal: it hands it on.
void redirect_signal(int signal) {
  ::syscall(SYS_tgkill, ::getpid(), taker.load(), signal);
}

bool is_ignored(int signal) {
  struct sigaction present {};
  return ::sigaction(signal, nullptr, &present) == 0 && present.sa_handler == SIG_IGN;
}

[[noreturn]] void take_signals(sigset_t wanted) {
  for (;;) {
    int signal = 0;
    if (::sigwait(&wanted, &signal) == 0) take(signal);
  }
}

}  // namespace

void start_taking_signals() {
  block_signals();
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : requests) {
    if (signal == SIGHUP && is_ignored(signal)) continue;  // nohup
    sigaddset(&wanted, signal);
  }
  static std::atomic<bool> ready{false};  // outlives the thread's last word to it
  std::thread([wanted] {
    use_signal_stack();
    taker = static_cast<pid_t>(::syscall(SYS_gettid));
    ready = true;
    ready.notify_one();
    take_signals(wanted);
  }).detach();
  ready.wait(false);
  struct sigaction action {};
  sigfillset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  action.sa_handler = redirect_signal;
  for (const int signal : requests)
    if (sigismember(&wanted, signal)) ::sigaction(signal, &action, nullptr);
  // A write beyond the limit on a file's size then fails with a reason.
  ::signal(SIGXFSZ, SIG_IGN);
}

void only_note_signals() { leaves = false; }

bool stop_requested() { return stop_signal != 0; }
int take_end_warnings() { return end_warnings.exchange(0); }
bool take_save_request() { return save_wanted.exchange(false); }

void leave_on_stop() {
  leaves = true;
  if (const int signal = stop_signal) leave(signal);
  if (end_warnings > 0) leave(SIGUSR1);
}

void save_on_stop() {
  saves = true;
  if (interrupts > 0) say_what_an_interrupt_does();
}

void keep_on_interrupt() { keeps = true; }
int take_interrupts() { return kept_interrupts.exchange(0); }

}  // namespace trireme::comm
