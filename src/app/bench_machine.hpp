// Measures the machine that the ranks run on, for plans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/world.hpp"
#include "plan/machine.hpp"

namespace trireme::app {

// All ranks measure at the same time, as they would train; the slowest one counts. Links
// to other nodes are measured where the world has several nodes, else they are those of
// the node. `quick`: tiny, to see that it runs. `scratch`: a file that is written, read
// and removed. Collective over the world. On hosts alone so far.
plan::Machine measure_machine(comm::World& world, const std::string& scratch, bool quick);

}  // namespace trireme::app
