// The report of a hang: who waits, who is late, or where the ranks disagree.
// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <type_traits>

#include "base/log.hpp"
#include "comm/abort.hpp"
#include "comm/mpi/claim.hpp"
#include "comm/mpi/spin_wait.hpp"
#include "comm/trace.hpp"
#include "comm/watchdog.hpp"

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;

// "I am waiting": what ranks send each other.
struct Note {
  int rank = 0;
  int padding = 0;
  double waited = 0;
  std::int64_t sequence = 0;
  std::array<char, 24> group{};
  std::array<char, 32> operation{};
  std::array<char, 40> tensor{};
};
static_assert(std::is_trivially_copyable_v<Note>);

template <std::size_t N>
std::array<char, N> clip(std::string_view text) {
  std::array<char, N> out{};
  std::copy_n(text.begin(), std::min(text.size(), N - 1), out.begin());
  return out;
}

// "all_reduce #17 fp32[1024] on axis 'data'"
std::string text_of(const Note& note) {
  const std::string tensor = note.tensor.data();
  return format("{} #{}{}{} on axis '{}'", note.operation.data(), note.sequence,
                tensor.empty() ? "" : " ", tensor, note.group.data());
}

std::string rank_text(const WorldState& state, int rank) {
  return format("rank {} (host {})", rank, state.hosts.of(rank));
}

// Notes of all ranks that wait, by rank: as far as they come within two seconds.
std::map<int, Note> exchange(WorldState& state, const Note& own) {
  static Note message;  // outlives the sends, which nobody waits for
  message = own;
  for (int rank = 0; rank < state.size; ++rank) {
    if (rank == state.rank) continue;
    MPI_Request request;
    check_mpi(MPI_Isend(&message, sizeof(Note), MPI_BYTE, rank, waiting_tag,
                        state.notes.get(), &request),
              "MPI_Isend");
    check_mpi(MPI_Request_free(&request), "MPI_Request_free");
  }
  std::map<int, Note> notes{{own.rank, own}};
  const auto end = Clock::now() + std::chrono::seconds(2);
  while (static_cast<int>(notes.size()) < state.size && Clock::now() < end) {
    int come = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, waiting_tag, state.notes.get(), &come, &status),
              "MPI_Iprobe");
    if (!come) {
      ::sched_yield();
      continue;
    }
    Note note;
    check_mpi(MPI_Recv(&note, sizeof note, MPI_BYTE, status.MPI_SOURCE, waiting_tag,
                       state.notes.get(), MPI_STATUS_IGNORE),
              "MPI_Recv");
    notes[note.rank] = note;
  }
  return notes;
}

// At most this many ranks or collectives are listed.
constexpr std::size_t list_limit = 8;

template <class T, class F>
std::string list(const std::vector<T>& items, const char* separator, const F& text) {
  std::string out;
  for (std::size_t i = 0; i < std::min(items.size(), list_limit); ++i)
    out += (i ? separator : "") + text(items[i]);
  if (items.size() > list_limit)
    out += format("{}and {} more", separator, items.size() - list_limit);
  return out;
}

std::string late_text(const WorldState& state, const Awaited& awaited,
                      const std::map<int, Note>& notes) {
  std::vector<int> missing;
  for (int rank = 0; rank < state.size; ++rank)
    if (!notes.contains(rank)) missing.push_back(rank);
  return "late: " + list(missing, ", ", [&](int rank) {
           const bool awaits = awaited.members.contains(rank) &&
                               (!awaited.absent || awaited.absent(rank));
           return rank_text(state, rank) +
                  (awaits ? " never entered it" : " is in no collective");
         });
}

// All ranks wait: in different collectives, or in one that the last rank entered too
// late.
std::string disagreement_text(const WorldState& state, const std::map<int, Note>& notes) {
  std::map<std::pair<std::int64_t, std::string>, std::vector<int>> by_collective;
  for (const auto& [rank, note] : notes)
    by_collective[{note.sequence, text_of(note)}].push_back(rank);
  if (by_collective.size() == 1) {
    const auto last = std::min_element(
        notes.begin(), notes.end(),
        [](const auto& a, const auto& b) { return a.second.waited < b.second.waited; });
    return format("late: {} entered it last, {} s ago", rank_text(state, last->first),
                  fixed(last->second.waited, 1));
  }
  std::vector<std::string> places;
  for (const auto& [collective, ranks] : by_collective)
    places.push_back(format("{} {} in {}", ranks.size() == 1 ? "rank" : "ranks",
                            list(ranks, ", ", [](int r) { return std::to_string(r); }),
                            collective.second));
  return "out of step: " + list(places, "; ", [](const std::string& s) { return s; });
}

}  // namespace

void end_hang(WorldState& state, const Awaited& awaited, double waited) {
  Note own;
  own.rank = state.rank;
  own.waited = waited;
  own.sequence = awaited.sequence;
  own.group = clip<24>(awaited.group);
  own.operation = clip<32>(awaited.operation);
  own.tensor = clip<40>(awaited.tensor);
  const std::map<int, Note> notes = exchange(state, own);
  dump_flight();
  if (notes.begin()->first == state.rank && may_report(state)) {
    if (!state.abandoned) announce_failure(state);
    const std::string why = static_cast<int>(notes.size()) < state.size
                                ? late_text(state, awaited, notes)
                                : disagreement_text(state, notes);
    report_hang(state, text_of(own), waited, why);
  }
  ::sleep(3);  // for the report of a lower rank
  abort_job(Status::hang);
}

void report_hang(const WorldState& state, const std::string& place, double waited,
                 const std::string& why) {
  log::error(format("trireme: error: {}: {} waited {} s ({} = {}); {}{}{}",
                    rank_text(state, state.rank), place, fixed(waited, 1),
                    state.timeout_name, exact(state.timeout_seconds), why,
                    trace().count() > 0 ? "\nlast collectives of this rank:" : "",
                    trace().last(8)));
  abort_job(Status::hang);
}

}  // namespace trireme::comm
