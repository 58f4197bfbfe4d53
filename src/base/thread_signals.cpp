// How the threads of this process meet signals.
// SPDX-License-Identifier: Apache-2.0
#include "base/thread_signals.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/error.hpp"
#include "base/system_reason.hpp"

namespace trireme {
namespace {

// The alternate stack of a thread: pages of its own above one that cannot be touched.
class SignalStack {
 public:
  SignalStack() {
    stack_t present{};
    if (::sigaltstack(nullptr, &present) == 0 && (present.ss_flags & SS_DISABLE) == 0)
      return;  // of a sanitizer, or of a library that made this thread
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const long least = ::sysconf(_SC_MINSIGSTKSZ);  // the kernel's frame alone
    usable_ =
        std::max<std::size_t>(65536, 4 * static_cast<std::size_t>(std::max(0L, least)));
    usable_ = (usable_ + page - 1) / page * page;
    void* const memory = ::mmap(nullptr, page + usable_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    require(memory != MAP_FAILED, Status::resources,
            "no memory for the signal stack of a thread: {}", system_reason(errno));
    base_ = static_cast<std::byte*>(memory);
    guard_ = page;
    ::mprotect(base_, guard_, PROT_NONE);
    stack_t stack{};
    stack.ss_sp = base_ + guard_;
    stack.ss_size = usable_;
    ::sigaltstack(&stack, nullptr);
  }
  ~SignalStack() {
    if (base_ == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
    ::munmap(base_, guard_ + usable_);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::byte* base_ = nullptr;
  std::size_t guard_ = 0, usable_ = 0;
};

}  // namespace

void block_signals() {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS,
                           SIGPIPE, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT})
    sigdelset(&blocked, signal);
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
}

void use_signal_stack() { static const thread_local SignalStack stack; }

}  // namespace trireme
