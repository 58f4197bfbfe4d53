// The world's own gathers: along a tree of ranks, in rank order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/mpi/state.hpp"

namespace trireme::comm {

// Rows of `bytes` bytes each go up the tree to rank `root`: a rank sends one message and
// receives one from each child (comm/gather_tree.hpp). To rank 0, once it is known where
// ranks run, the ranks of a host gather first. On the root: the rows of all
// ranks, in rank order. On others: those of the subtree, in the tree's order.
std::vector<std::byte> gather_rows(WorldState& state, const void* row, std::size_t bytes,
                                   int root, const char* operation);

// Texts of different lengths, the same way. lengths: what gather_rows() gave for each
// rank's length as a std::uint64_t, with the same root. Together below 2 GiB.
std::string gather_bytes(WorldState& state, const std::string& text,
                         const std::vector<std::byte>& lengths, int root,
                         const char* operation);

}  // namespace trireme::comm
