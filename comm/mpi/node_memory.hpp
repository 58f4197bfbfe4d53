// NodeMemory: memory that the ranks of a node share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "comm/mpi/mpi.hpp"

namespace trireme::comm {

// A word that all ranks of a node write, and words of each, which the others read: zero
// at first.
class NodeMemory {
 public:
  // Collective over the ranks of a node. lowest(value) is the lowest of all ranks'
  // values, and returns when all have come.
  NodeMemory(MPI_Comm node, int words_of_each, const std::function<int(int)>& lowest);
  ~NodeMemory();  // collective
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  // Nothing where MPI shares no memory with every rank, or one rank has the node for
  // itself.
  std::uint64_t* common() const { return words_.data(); }
  // In the order of ranks on the node.
  std::span<std::uint64_t> of_each() const {
    return words_.empty() ? words_ : words_.subspan(1);
  }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  std::span<std::uint64_t> words_;
};

}  // namespace trireme::comm
