// SpinWait: looks, then yields, then sleeps, until what it waits for is there.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/spin_wait.hpp"

#include <sched.h>
#include <time.h>

#include <utility>

#include "comm/mpi/claim.hpp"

namespace trireme::comm {
namespace {

// Looks in vain before the core is offered to others, the first time and again. Each look
// is less than a microsecond; MPI may yield in it too, but not under every launcher.
constexpr int first_looks = 2000, looks = 8;
constexpr auto long_wait = std::chrono::milliseconds(20);
constexpr auto look_interval = std::chrono::milliseconds(50);

void nap() {
  const timespec time{.tv_sec = 0, .tv_nsec = 20'000};
  ::nanosleep(&time, nullptr);
}

bool note_has_come(WorldState& state) {
  int come = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, waiting_tag, state.notes.get(), &come,
                       MPI_STATUS_IGNORE),
            "MPI_Iprobe");
  return come != 0;
}

}  // namespace

SpinWait::SpinWait(WorldState& state, std::function<Awaited()> describe)
    : state_(state),
      describe_(std::move(describe)),
      waited_before_(state.waiting.exchange(true)) {}

SpinWait::~SpinWait() { state_.waiting = waited_before_; }

void SpinWait::idle() {
  ++looks_;
  if (looks_ % looks != 0 || (state_.spin && looks_ < first_looks)) return;
  ::sched_yield();
  const auto now = Clock::now();
  if (now - start_ > long_wait) nap();
  if (now < next_look_) return;
  next_look_ = now + look_interval;
  hear_failure(state_);
  if (state_.timeout_seconds <= 0) return;
  const double waited = std::chrono::duration<double>(now - start_).count();
  if (waited > state_.timeout_seconds || note_has_come(state_))
    end_hang(state_, describe_(), waited);
}

}  // namespace trireme::comm
