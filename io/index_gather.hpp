// The indices of all ranks' shards on rank 0, in rounds of bounded size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/world.hpp"

namespace trireme::io {

// Each rank has the index of its shard, or "", and rank 0 gets them, in rank order. The
// name of a tensor comes once a shard, so that together they are half as much again as
// what they make. No rank holds more of them at a time than a round has; of several
// rounds rank 0 keeps what it makes of each.
class IndexGather {
 public:
  static constexpr std::int64_t round_bytes = std::int64_t{1} << 26;

  // Collective over the world. A round is closed before it exceeds `most` bytes.
  IndexGather(comm::World& world, std::string mine, std::int64_t most = round_bytes);

  // The same on every rank.
  bool done() const { return round_ == first_ranks_.size(); }
  // Collective: the next round's indices go to rank 0. merge() comes before the next.
  void gather_next();
  // On rank 0: makes one of what the last round brought, if there are several. Calls
  // nothing collective, so that a thread of its own may do it. Throws as IndexMerge does.
  void merge();
  // On rank 0, when it is done: the parts of the checkpoint's index (IndexMerge).
  std::vector<std::string> take() { return std::move(merged_); }

 private:
  comm::World& world_;
  std::string mine_;
  std::vector<int> first_ranks_;  // of each round
  std::size_t round_ = 0;         // the next
  std::vector<std::string> gathered_, merged_;
};

}  // namespace trireme::io
