// Claim: of all that fail together, the one that reports it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "comm/mpi/mpi.hpp"

namespace trireme::comm {

struct WorldState;

// A word of memory that the ranks of a node share. Whoever takes it first speaks for the
// failure; it is never given back, so that a rank that was stopped, and wakes when the
// others are gone, finds it taken.
class Claim {
 public:
  // Collective over the ranks of a node. Where MPI shares no memory, each rank has a word
  // of its own.
  explicit Claim(MPI_Comm node);
  ~Claim();  // collective
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  // True for one thread of one rank of the node, once. Calls no MPI and never waits.
  bool take() noexcept;
  bool is_taken() const noexcept;

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  int own_ = 0;
  int* word_ = &own_;
};

// Whether this rank is to report a failure, for its main thread. Lower ranks speak first:
// a rank waits for its turn, two seconds at the most. Between nodes, ranks tell each
// other by messages, which a rank that abandoned some must not move any more.
bool may_report(WorldState& state);

// The same at once and without MPI, for other threads.
bool may_report_now() noexcept;

}  // namespace trireme::comm
