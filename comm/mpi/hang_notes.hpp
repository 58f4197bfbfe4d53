// What ranks that wait too long tell each other: a note each to a few judges.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "comm/mpi/spin_wait.hpp"

namespace trireme::comm {

// "I am waiting": what a judge keeps of each rank.
struct Note {
  int rank = 0;
  float waited = 0;
  std::int64_t sequence = 0;
  std::array<char, 64> collective{};  // operation, tensor, group; '\0' after each

  static Note for_rank(int rank, const Awaited& awaited, double waited);
  // "all_reduce #17 fp32[1024] on axis 'data'"
  std::string text() const;
};
static_assert(sizeof(Note) <= 80);

// How many judge, and how long ranks listen.
struct HangLimits {
  using Time = std::chrono::milliseconds;
  int judges = 8;
  Time turn{100};       // of each judge, before it asks all ranks
  Time quiet{2000};     // without a new note: whoever waits has told it
  Time unasked{10000};  // of a rank that is no judge: no judge waits
  Time most{60000};
};

// What one rank learns in a hang. Every rank that waits sends its note to the judges,
// which lie evenly among the ranks; the lowest of them that waits asks all ranks, so that
// those learn of the hang whose time is not over, and speaks in the end. Up to as many
// ranks as there are judges, all are judges.
class HangNotes {
 public:
  // Sends this rank's own note.
  HangNotes(WorldState& state, const Note& own, HangLimits limits = {});

  // Until all notes that come have come. Of a rank that is no judge: until the job ends,
  // or it is known that no judge waits.
  void listen();

  // Whether all that wait have told this rank.
  bool is_judge() const { return own_index_ >= 0; }
  // Whether this rank is the lowest that knows.
  bool speaks() const;
  // Whether notes of all ranks have come, by rank.
  bool is_complete() const { return std::ssize(notes_) == state_.size; }
  const std::vector<Note>& notes() const& { return notes_; }
  std::vector<Note> notes() && { return std::move(notes_); }
  // Whether a rank has told nothing that it would have told, as far as this rank can say.
  bool is_late(int rank) const;

 private:
  using Clock = std::chrono::steady_clock;

  int judges() const { return std::min(state_.size, limits_.judges); }
  int judge(int index) const;
  // -1: it is none.
  int index_of(int rank) const;
  void send(const void* data, int bytes, int rank);
  void add(const Note& note);
  bool receive();
  void ask();
  bool lower_judge_waits() const;

  WorldState& state_;
  HangLimits limits_;
  int own_index_;
  std::vector<Note> notes_;
  std::vector<bool> has_come_;  // by rank; of a judge
  bool asked_ = false;          // by a judge, or this one has asked
};

}  // namespace trireme::comm
