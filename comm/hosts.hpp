// Which rank runs on which host, as all ranks learned it at the start.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/host_table.hpp"
#include "comm/world.hpp"

namespace trireme::comm {

// Lives as long as the world.
const HostTable& hosts_of(const World& world);

}  // namespace trireme::comm
