// A wait that is too long, and a failure of all ranks, on simulated ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/world.hpp"

namespace trireme::scale {

inline constexpr int late_rank = 1;

// What all ranks but `late_rank` do when their time is over: up to `judges` of them hear
// of all.
void time_out(comm::World& world, int judges);

// Of all ranks that fail together: whether this one reports.
bool fails(comm::World& world);

// What a rank that waits does meanwhile.
void hears(comm::World& world);

// The same as it would be if each told all others.
void tell_all(comm::World& world);

}  // namespace trireme::scale
