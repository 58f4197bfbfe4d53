// Making groups of the world's ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "comm/group.hpp"
#include "comm/world.hpp"

namespace trireme::comm {

// The group of all ranks that give the same color, ordered by key. Collective over the
// world; the group must end before the world does.
std::unique_ptr<Group> split_group(World& world, std::string name, int color, int key);

}  // namespace trireme::comm
