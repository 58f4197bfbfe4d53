// An MPI whose ranks are fibers of one thread, and which counts what they do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

namespace trireme::scale {

// What one rank has done since the last reset().
struct Counts {
  std::int64_t messages = 0;  // sent
  std::int64_t bytes = 0;     // sent
  std::int64_t received = 0;  // messages
  std::int64_t opens = 0;     // files and folders opened
  std::int64_t stats = 0;     // files asked for size or kind
  std::int64_t changes = 0;   // names made, changed and removed
  std::int64_t read = 0;      // bytes of files
  std::int64_t written = 0;   // bytes of files
  std::int64_t held = 0;      // bytes of the heap that it holds
  std::int64_t held_before = 0;
  std::int64_t peak = 0;  // the most that it held at a time, above held_before
  std::set<int> peers;    // ranks that it has sent to or received from
};

// A job of `ranks` ranks, of which `ranks_on_node` share a node. The functions of MPI
// that Trireme calls are defined beside it, and are those of the rank that runs.
// Point-to-point messages are delivered at once; MPI's own barrier, broadcast and
// all-reduce count as the binomial tree or the recursive doubling that MPI libraries use
// for small messages.
class FakeJob {
 public:
  FakeJob(int ranks, int ranks_on_node);
  ~FakeJob();
  FakeJob(const FakeJob&) = delete;
  FakeJob& operator=(const FakeJob&) = delete;

  int ranks() const { return static_cast<int>(counts_.size()); }
  int ranks_on_node() const { return ranks_on_node_; }
  // Runs `work` on every rank, until all have ended. Fails where ranks wait for ever.
  void run(const std::function<void(int)>& work);
  // Counts start anew.
  void reset();
  Counts& of(int rank) { return counts_[static_cast<std::size_t>(rank)]; }

 private:
  int ranks_on_node_;
  std::vector<Counts> counts_;
};

}  // namespace trireme::scale
