// Texts that are joined on their way to rank 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "comm/world.hpp"

namespace trireme::comm {

// Along the tree of the world's gathers: each rank calls `join` with what it has so far,
// of ranks in order, and the text of the ranks that follow, and sends the result up. What
// is alike on many ranks so takes no more room than once, also on rank 0, which returns
// the text of all; others return that of a part. Collective over the world.
std::string merge_up(
    const World& world, std::string mine,
    const std::function<void(std::string& so_far, const std::string& next)>& join);

}  // namespace trireme::comm
