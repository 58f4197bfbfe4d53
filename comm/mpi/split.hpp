// Making groups of the world's ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"
#include "comm/nccl_transport.hpp"
#include "comm/transport.hpp"
#include "comm/world.hpp"

namespace trireme::comm {

// Where a group's tensors may lie beside the host, and how they travel from there.
struct GroupDevice {
  Device device = Device::host();
  Transport transport = Transport::mpi;
  Links links = Links::none;  // of NCCL
  bool collectives = true;    // by NCCL; alike on all ranks of the world
};

// The group of the world ranks `members`, of which this is one. Collective over the
// world, where each rank makes a group of its own; the group must end before the world
// does. It has no communicator of MPI: messages of all groups travel in one of the world.
std::unique_ptr<Group> make_group(World& world, std::string name, const RankList& members,
                                  const GroupDevice& on = {});

}  // namespace trireme::comm
