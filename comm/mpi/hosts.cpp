// Hosts of the world's ranks.
// SPDX-License-Identifier: Apache-2.0
#include "comm/hosts.hpp"

#include "comm/mpi/state.hpp"

namespace trireme::comm {

const HostTable& hosts_of(const World& world) { return world.state().hosts; }

}  // namespace trireme::comm
