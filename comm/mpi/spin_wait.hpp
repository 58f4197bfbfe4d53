// SpinWait: how a rank waits for others, and what it says when they do not come.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "comm/mpi/state.hpp"

namespace trireme::comm {

// What a rank waits for.
struct Awaited {
  std::string group;
  std::string operation;  // "all_reduce", "receive from rank 3"
  std::string tensor;     // "fp32[1024]"; empty: none
  std::int64_t sequence = 0;
  RankList members;                 // world ranks of the group
  std::function<bool(int)> absent;  // has nothing come from this member? empty: unknown
};

// Tags on the communicator of notes.
inline constexpr int waiting_tag = 1, failure_tag = 2;

// A wait. idle() is called after each look that found nothing new: it spins, then
// yields, then sleeps. When the world's time-out passes here or on any other waiting
// rank, all waiting ranks tell a few judges what they wait for (HangNotes); who tells
// nothing is late. The lowest waiting judge reports, and the job ends with Status::hang.
class SpinWait {
 public:
  // `describe` is called for a report only.
  SpinWait(WorldState& state, std::function<Awaited()> describe);
  ~SpinWait();
  SpinWait(const SpinWait&) = delete;
  SpinWait& operator=(const SpinWait&) = delete;

  void idle();

 private:
  using Clock = std::chrono::steady_clock;

  WorldState& state_;
  std::function<Awaited()> describe_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_look_ = start_;  // for notes of others
  bool waited_before_;
  std::int64_t looks_ = 0;
};

// Tells the other ranks and hears from them, reports, and ends the job.
[[noreturn]] void end_hang(WorldState& state, const Awaited& awaited, double waited);

// The report itself, for whoever notices a rank whose host is stuck and has the claim to
// speak: where it is, for how long, why as far as is known, and its last collectives.
// Ends the job with Status::hang. Any thread; calls no MPI but MPI_Abort.
[[noreturn]] void report_hang(const WorldState& state, const std::string& place,
                              double waited, const std::string& why);

}  // namespace trireme::comm
