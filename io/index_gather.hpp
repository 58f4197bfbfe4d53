// The indices of all ranks' shards on rank 0, in rounds of bounded size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/world.hpp"

namespace trireme::io {

// Each rank has the indices of some shards, and rank 0 gets them in the shards' order.
// The name of a tensor comes once a shard, so that together they are half as much again
// as what they make. No rank holds more of other ranks' at a time than a round has; of
// several rounds rank 0 keeps what it makes of each.
class IndexGather {
 public:
  static constexpr std::int64_t round_bytes = std::int64_t{1} << 26;

  // Collective over the world. mine: by the numbers of shards, each of which one rank
  // has. A round is closed before it exceeds `most` bytes.
  IndexGather(comm::World& world, std::map<int, std::string> mine,
              std::int64_t most = round_bytes);

  // The same on every rank.
  bool done() const { return round_ == first_shards_.size(); }
  // Collective: the next round's indices go to rank 0. merge() comes before the next.
  void gather_next();
  // On rank 0: makes one of what the last round brought, if there are several. Calls
  // nothing collective, so that a thread of its own may do it. Throws as IndexMerge does.
  void merge();
  // On rank 0, when it is done: the parts of the checkpoint's index (IndexMerge).
  std::vector<std::string> take() { return std::move(merged_); }

 private:
  struct Shard {
    int number = 0, rank = 0;
    std::size_t bytes = 0;
  };

  std::string rounds(std::int64_t most) const;

  comm::World& world_;
  std::map<int, std::string> mine_;  // what was not sent yet
  std::vector<Shard> shards_;        // all, by number; on rank 0
  std::vector<int> first_shards_;    // of each round
  std::size_t round_ = 0;            // the next
  std::vector<std::string> gathered_, merged_;
};

// Collective over the world: all rounds, one after the other. On rank 0 the parts of the
// checkpoint's index. Throws an Agreed Error as IndexMerge does.
std::vector<std::string> gather_indices(comm::World& world,
                                        std::map<int, std::string> mine);

}  // namespace trireme::io
