// Collectives from GPU to GPU by NCCL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "comm/device_transport.hpp"

namespace trireme::comm {

class MpiGroup;

bool nccl_is_built();

// Between which ranks of a group send() and receive() work: none; neighbours, the last
// and the first included, for which each direction costs a communicator; any two, within
// an exchange.
enum class Links : std::uint8_t { none, ring, all };

// Collective over the world: each rank calls for its group of one name, which outlives
// the transport; nullptr for a group of one rank, and where there is nothing to do.
// collectives: whether it has a communicator of all ranks, or links alone. Throws
// Error(resources) in a build without NCCL, Error(transport) when NCCL fails.
std::unique_ptr<DeviceTransport> make_nccl_transport(MpiGroup& group, Device device,
                                                     Links links, bool collectives);

}  // namespace trireme::comm
