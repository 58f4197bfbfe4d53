// Which rank holds which shard of a step's copies, as runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme::train {

// Shards next to each other mostly lie on ranks next to each other: each such run is one
// entry. What a rank keeps of all shards so does not grow with them, but with the nodes
// that were lost.
class ShardHolders {
 public:
  ShardHolders() = default;
  // holders: of each shard.
  explicit ShardHolders(const std::vector<int>& holders);

  int shards() const { return shards_; }
  int of(int shard) const;
  std::vector<int> held_by(int rank) const;
  std::size_t runs() const { return runs_.size(); }

  std::string text() const;
  // Throws Error(internal) for a text that is none.
  static ShardHolders from_text(const std::string& text);

 private:
  // Shards first, first + 1, ... lie on ranks holder, holder + 1, ...
  struct Run {
    int first = 0, holder = 0;
  };
  std::vector<Run> runs_;
  int shards_ = 0;
};

// A shard that a node lacks goes from a rank that has it to one of that node.
struct Transfer {
  int from = 0, to = 0, shard = 0;
};

// Brings each shard to the ranks that it is listed with. Who has received one hands it
// on, so that many get it in as many rounds as a tree has levels: in this order, in which
// each rank does its own.
std::vector<Transfer> in_rounds(const ShardHolders& holders,
                                const std::map<int, std::vector<int>>& receivers);

}  // namespace trireme::train
