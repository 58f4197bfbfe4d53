// Claim: elects the one rank that reports a failure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

namespace trireme::comm {

struct WorldState;

// A word in node-shared memory that names the reporting rank, of this node or another. It
// is never released, so a rank that was stopped (SIGSTOP) and resumes later finds it
// taken.
class Claim {
 public:
  // shared: a word that is 0 at first; nullptr where MPI shares no memory: each rank has
  // one of its own.
  explicit Claim(std::uint64_t* shared) : word_(shared != nullptr ? shared : &own_) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  // These call no MPI and never wait.
  // Names the rank that is to report, unless one is named already.
  void nominate(int rank) noexcept;
  // That rank, or the one that has reported; -1: none yet.
  int holder() const noexcept;
  // Whether this rank, `rank`, reports: true for one thread of one rank of the node,
  // once, and not where another rank is named.
  bool take(int rank) noexcept;
  // The same although another rank is named: that one may hang before it reports.
  bool take_from_any(int rank) noexcept;
  // True once, for the caller that is to tell other ranks which rank that is.
  bool first_to_forward() noexcept { return !std::exchange(forwarded_, true); }

 private:
  bool speak(int rank, bool for_another) noexcept;

  std::uint64_t own_ = 0;
  bool forwarded_ = false;
  std::uint64_t* word_;  // 2 * (rank + 1), plus 1 once it reports; 0: none
};

// Whether this rank is to report a failure, for its main thread. Lower ranks speak first:
// a rank waits for its turn, two seconds at the most. If it is to, the others are told.
bool may_report(WorldState& state);

// The same at once and without MPI, for other threads.
bool may_report_now() noexcept;

// Tells the others that this rank has failed and will report it, so that they do not
// report what they see of that. From node to node that takes messages along a tree, log2
// of the ranks from each: whoever learns it, as it fails itself or waits, passes it on,
// also for the others of its node. A rank that abandoned messages moves none any more.
void announce_failure(WorldState& state);

// Learns of such a rank and passes it on: for ranks that wait.
void hear_failure(WorldState& state);

}  // namespace trireme::comm
