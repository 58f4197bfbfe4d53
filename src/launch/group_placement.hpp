// Whether the groups of a mesh lie on as few hosts as they can.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/host_table.hpp"
#include "comm/mesh.hpp"

namespace trireme::launch {

// A sentence about the tensor groups if one of them spans more hosts than it must, else
// about the context groups, else the shard groups: which of them, on how many hosts, and
// what to do. Empty where all is well. What a group must span follows from the fullest
// host: tensor groups of 4 fit on one host of 8 ranks, and so do context groups of 2
// beside them.
//   shard: ranks of a shard group (comm::Folding)
//   hosts: of all ranks of the shape
std::string placement_warning(const comm::MeshShape& shape, int shard,
                              const comm::HostTable& hosts);

// A sentence about shard groups of 512 and more ranks: their collectives go around a
// ring, so that each waits for as many messages one after the other. Empty for smaller
// ones.
std::string long_ring_warning(int shard);

}  // namespace trireme::launch
