// Claim: a word in memory that the node shares; who sets it first reports the failure.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/claim.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "comm/mpi/spin_wait.hpp"
#include "comm/mpi/state.hpp"
#include "comm/watchdog.hpp"

namespace trireme::comm {

Claim::Claim(MPI_Comm node) {
  int rank = 0, size = 1;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);
  if (size == 1) return;
  void* base = nullptr;
  if (MPI_Win_allocate_shared(rank == 0 ? sizeof(int) : 0, sizeof(int), MPI_INFO_NULL,
                              node, static_cast<void*>(&base), &window_) != MPI_SUCCESS) {
    window_ = MPI_WIN_NULL;
    return;
  }
  MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN);
  MPI_Aint bytes = 0;
  int unit = 0;
  if (MPI_Win_shared_query(window_, 0, &bytes, &unit, static_cast<void*>(&base)) ==
          MPI_SUCCESS &&
      bytes >= static_cast<MPI_Aint>(sizeof(int)))
    word_ = static_cast<int*>(base);
  if (rank == 0) *word_ = 0;
  MPI_Barrier(node);
}

Claim::~Claim() {
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

bool Claim::take() noexcept { return std::atomic_ref<int>(*word_).exchange(1) == 0; }

bool Claim::is_taken() const noexcept { return std::atomic_ref<int>(*word_).load() != 0; }

// A rank of another node has told that it reports.
static bool another_node_reports(WorldState& state) {
  int come = 0;
  if (!state.abandoned)
    MPI_Iprobe(MPI_ANY_SOURCE, failure_tag, state.notes.get(), &come, MPI_STATUS_IGNORE);
  return come != 0;
}

bool may_report(WorldState& state) {
  using Clock = std::chrono::steady_clock;
  const auto turn =
      Clock::now() + std::chrono::milliseconds(std::min(
                         30 * static_cast<std::int64_t>(state.rank), std::int64_t{2000}));
  while (true) {
    if (state.claim->is_taken() || another_node_reports(state) || alarm_is_raised())
      return false;
    if (Clock::now() >= turn) return state.claim->take() && claim_report();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool may_report_now() noexcept {
  WorldState* state = current_state();
  return state == nullptr || (state->claim->take() && claim_report());
}

}  // namespace trireme::comm
