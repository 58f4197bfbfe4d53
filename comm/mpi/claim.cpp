// Who reports a failure: a word that the node shares, and messages from node to node.
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/claim.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "comm/collective.hpp"
#include "comm/mpi/spin_wait.hpp"
#include "comm/mpi/state.hpp"
#include "comm/watchdog.hpp"

namespace trireme::comm {
namespace {

using Word = std::atomic_ref<std::uint64_t>;

std::uint64_t name_of_rank(int rank) {
  return 2 * (static_cast<std::uint64_t>(rank) + 1);
}

}  // namespace

void Claim::nominate(int rank) noexcept {
  std::uint64_t nobody = 0;
  Word(*word_).compare_exchange_strong(nobody, name_of_rank(rank));
}

int Claim::holder() const noexcept {
  return static_cast<int>(Word(*word_).load() / 2) - 1;
}

bool Claim::take(int rank) noexcept { return speak(rank, false); }

bool Claim::take_from_any(int rank) noexcept { return speak(rank, true); }

bool Claim::speak(int rank, bool for_another) noexcept {
  const Word word(*word_);
  const std::uint64_t kept = name_of_rank(rank), spoken = kept + 1;
  std::uint64_t now = word.load();
  do {
    const bool is_free = now == 0 || now == kept || (for_another && now % 2 == 0);
    if (!is_free) return false;
  } while (!word.compare_exchange_weak(now, spoken));
  return true;
}

namespace {

// Tells this rank's children in the tree that begins at the reporting rank, once.
void pass_on(WorldState& state) {
  static int speaker = -1;  // outlives the sends, which nobody waits for
  if (state.abandoned || !state.claim->first_to_forward()) return;
  speaker = state.claim->holder();
  const BinomialNode place = binomial_node(state.rank, speaker, state.size);
  for_each_child(place, state.size, ChildOrder::farthest_first, [&](int distance, int) {
    const int child = (state.rank + distance) % state.size;
    MPI_Request request;
    if (MPI_Isend(&speaker, sizeof speaker, MPI_BYTE, child, failure_tag,
                  state.notes.get(), &request) == MPI_SUCCESS)
      MPI_Request_free(&request);
  });
}

bool another_reports(const WorldState& state) {
  const int speaker = state.claim->holder();
  return speaker >= 0 && speaker != state.rank;
}

// 60 ms a rank for a second, since a rank on a busy machine may come late; higher ranks
// share the second after that.
std::chrono::milliseconds turn_of(const WorldState& state) {
  const std::int64_t rank = state.rank;
  return std::chrono::milliseconds(std::min(60 * rank, 1000 + 1000 * rank / state.size));
}

}  // namespace

void announce_failure(WorldState& state) {
  state.claim->nominate(state.rank);
  pass_on(state);
}

void hear_failure(WorldState& state) {
  if (state.claim == nullptr) return;  // the start goes on
  int come = 0;
  MPI_Status status;
  if (!state.abandoned)
    MPI_Iprobe(MPI_ANY_SOURCE, failure_tag, state.notes.get(), &come, &status);
  int speaker = -1;
  if (come != 0 &&
      MPI_Recv(&speaker, sizeof speaker, MPI_BYTE, status.MPI_SOURCE, failure_tag,
               state.notes.get(), MPI_STATUS_IGNORE) == MPI_SUCCESS)
    state.claim->nominate(speaker);
  if (another_reports(state)) pass_on(state);
}

bool may_report(WorldState& state) {
  using Clock = std::chrono::steady_clock;
  const auto turn = Clock::now() + turn_of(state);
  while (true) {
    hear_failure(state);
    if (another_reports(state)) return false;
    if (Clock::now() >= turn) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (alarm_is_raised()) return false;  // a file: looked at once
  if (!state.claim->take(state.rank) || !claim_report()) return false;
  pass_on(state);
  return true;
}

bool may_report_now() noexcept {
  WorldState* state = current_state();
  return state == nullptr || state->alone() ||
         (state->claim->take_from_any(state->rank) && claim_report());
}

}  // namespace trireme::comm
