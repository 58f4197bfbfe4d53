// One piece of work at a time in a thread of its own.
// SPDX-License-Identifier: Apache-2.0
#include "io/background.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "base/thread_signals.hpp"

namespace trireme::io {
namespace {

// On Linux the priority is the thread's, elsewhere the process's.
void yield_to_training() {
  block_signals();
  use_signal_stack();
#ifdef __linux__
  constexpr int nicer = 10;  // than the training threads, however they were started
  const auto thread = static_cast<id_t>(::gettid());
  ::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + nicer);
#endif
}

}  // namespace

void Background::start(std::function<void()> work, RunIn run_in) {
  require(!work_.valid(), "background work is started before the last was finished");
  if (run_in == RunIn::caller) {
    work_ = std::async(std::launch::deferred, std::move(work));
    return;
  }
  work_ = std::async(std::launch::async, [work = std::move(work)] {
    yield_to_training();
    work();
  });
}

bool Background::busy() const {
  return work_.valid() &&
         work_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
}

void Background::finish() {
  if (work_.valid()) work_.get();
}

}  // namespace trireme::io
