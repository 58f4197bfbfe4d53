// Which ranks share the memory of a node, and whose copy each rank keeps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/host_table.hpp"
#include "comm/world.hpp"

namespace trireme::train {

// Nodes are told apart by the folder that their ranks see, so that a folder that several
// nodes share, on a network's file system too, is no other node's memory.
class NodePlaces {
 public:
  // Collective. `folder`: is there, on every rank, for this user alone. `host`: of this
  // rank. `claim`: the name of a file that is made in it for a moment, as no other start
  // of a program makes it. Throws an Agreed Error(cannot_create).
  NodePlaces(comm::World& world, const std::string& folder, const std::string& host,
             const std::string& claim);

  // Rank r sends to r + shift and keeps what r - shift sends, around the end; 0 where one
  // node has too many of the ranks for another to take them.
  int shift() const { return shift_; }
  std::string node_of(int rank) const { return nodes_.host(rank); }
  // Of the ranks that share this rank's node, in order: its place and how many there are.
  int place() const { return place_; }
  int on_node() const { return on_node_; }
  // "host-a and host-b", the first two that see one folder; "": there are none.
  const std::string& shared() const { return shared_; }

 private:
  void number(comm::World& world, const std::vector<std::string>& names);

  comm::HostTable nodes_;
  std::string shared_;
  int shift_ = 0, place_ = 0, on_node_ = 1;
};

// The least shift with which every rank's partner is on another node; 0: there is none.
int partner_shift(const std::vector<int>& nodes);

}  // namespace trireme::train
