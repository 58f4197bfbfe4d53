// One-time work: done by one rank, waited for by the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "comm/world.hpp"

namespace trireme::comm {

// Rank 0 runs `work` while the other ranks wait, so that after the call every rank
// finds what it made. Collective over the world. When it throws an Error, every rank
// throws an Agreed error with its message and status. When it takes longer than `seconds`
// (0: as the world's time-out says), the job ends with Status::hang, naming it.
void first_rank_then_others(World& world, double seconds,
                            const std::function<void()>& work);

// How long ranks wait for rank 0's work: as the world's time-out says, or without one,
// where nobody knows how long it takes.
enum class WaitLimit : bool { usual, none };

// Rank 0 runs `work`, and every rank has the text that it returns. When it throws an
// Error, every rank throws an Agreed error with its message and status. Collective over
// the world.
std::string broadcast_from_first(World& world, WaitLimit limit,
                                 const std::function<std::string()>& work);

}  // namespace trireme::comm
