// The report of a hang: who waits, who is late, or where the ranks disagree.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/log.hpp"
#include "comm/abort.hpp"
#include "comm/mpi/claim.hpp"
#include "comm/mpi/hang_notes.hpp"
#include "comm/mpi/spin_wait.hpp"
#include "comm/trace.hpp"
#include "comm/watchdog.hpp"

namespace trireme::comm {
namespace {

std::string rank_text(const WorldState& state, int rank) {
  return format("rank {} (host {})", rank, state.hosts.host(rank));
}

// At most this many ranks or collectives are listed.
constexpr std::size_t list_limit = 8;

// As many of a list as are shown, and how many more there are.
class List {
 public:
  explicit List(const char* separator) : separator_(separator) {}
  void add(const std::function<std::string()>& text) {
    if (++count_ <= list_limit) text_ += (count_ > 1 ? separator_ : "") + text();
  }
  std::string text() const {
    return count_ <= list_limit
               ? text_
               : text_ + format("{}and {} more", separator_, count_ - list_limit);
  }

 private:
  const char* separator_;
  std::string text_;
  std::size_t count_ = 0;
};

std::string late_text(const WorldState& state, const Awaited& awaited,
                      const HangNotes& heard) {
  List late(", ");
  for (int rank = 0; rank < state.size; ++rank) {
    if (!heard.is_late(rank)) continue;
    const bool awaits =
        awaited.members.contains(rank) && (!awaited.absent || awaited.absent(rank));
    late.add([&] {
      return rank_text(state, rank) +
             (awaits ? " never entered it" : " is in no collective");
    });
  }
  return "late: " + late.text() +
         (heard.is_judge() ? "" : "; of others nothing is known");
}

std::string entered_last_text(const WorldState& state, const std::vector<Note>& notes) {
  const auto last = std::ranges::min_element(notes, {}, &Note::waited);
  return format("late: {} entered it last, {} s ago", rank_text(state, last->rank),
                fixed(last->waited, 1));
}

std::string place_text(std::span<const Note> alike) {
  List ranks(", ");
  for (const Note& note : alike) ranks.add([&] { return std::to_string(note.rank); });
  return format("{} {} in {}", alike.size() == 1 ? "rank" : "ranks", ranks.text(),
                alike.front().text());
}

// All ranks wait: in different collectives, or in one that the last rank entered too
// late.
std::string disagreement_text(const WorldState& state, std::vector<Note> notes) {
  const auto place = [](const Note& n) { return std::tie(n.sequence, n.collective); };
  std::ranges::sort(notes, {}, [](const Note& n) {
    return std::tie(n.sequence, n.collective, n.rank);
  });
  if (place(notes.front()) == place(notes.back())) return entered_last_text(state, notes);
  List places("; ");
  for (std::size_t begin = 0, end = 0; begin < notes.size(); begin = end) {
    while (end < notes.size() && place(notes[end]) == place(notes[begin])) ++end;
    places.add([&] { return place_text(std::span(notes).subspan(begin, end - begin)); });
  }
  return "out of step: " + places.text();
}

}  // namespace

void end_hang(WorldState& state, const Awaited& awaited, double waited) {
  const Note own = Note::for_rank(state.rank, awaited, waited);
  HangNotes heard(state, own);
  heard.listen();
  end_within(report_limit_seconds, Status::hang);
  dump_flight();
  if (heard.speaks() && may_report(state))
    report_hang(state, own.text(), waited,
                heard.is_complete() ? disagreement_text(state, std::move(heard).notes())
                                    : late_text(state, awaited, heard));
  ::sleep(other_report_wait_seconds);
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
