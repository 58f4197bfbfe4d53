// Patience.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/patience.hpp"

#include <sched.h>
#include <time.h>

#include <utility>

namespace trireme::comm {
namespace {

constexpr int spins = 2000;  // looks before the core is offered to others
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

Patience::Patience(WorldState& state, std::function<Awaited()> describe)
    : state_(state),
      describe_(std::move(describe)),
      waited_before_(state.waiting.exchange(true)) {}

Patience::~Patience() { state_.waiting = waited_before_; }

void Patience::idle() {
  if (state_.spin && spins_ < spins) {
    ++spins_;
    return;
  }
  ::sched_yield();
  const auto now = Clock::now();
  if (now - start_ > long_wait) nap();
  if (state_.timeout_seconds <= 0 || now < next_look_) return;
  next_look_ = now + look_interval;
  const double waited = std::chrono::duration<double>(now - start_).count();
  if (waited > state_.timeout_seconds || note_has_come(state_))
    end_hang(state_, describe_(), waited);
}

}  // namespace trireme::comm
