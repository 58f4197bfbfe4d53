// The communicators of a process: one for each list of ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "comm/mpi/mpi_group.hpp"
#include "comm/nccl/communicator.hpp"

namespace trireme::comm {

// Groups of a mesh often have the same members: where there is only data parallelism all
// have. Each communicator takes a GPU's memory and time at the start, and groups of the
// same ranks call in the same order on all of them, so they share one.
//
// The communicator of `group`'s ranks; nullptr for a group of one rank. Collective over
// the world: every rank calls for its own group of one name. The first communicator is
// that of all ranks; the others are cut from it and share its resources.
std::shared_ptr<NcclCommunicator> nccl_communicator(MpiGroup& group, Device device);

}  // namespace trireme::comm
