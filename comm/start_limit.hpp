// How long the start of a job may take before there is a deck that says so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/world.hpp"

namespace trireme::comm {

// TRIREME_START_SECONDS: what MPI's start may take, and each wait for other ranks until
// set_timeout() is called; 0: for ever. Half an hour where it is not set. Throws
// Error(command_line) for a value that is no number of seconds.
double start_seconds();

// From now on, until set_timeout(), waits for other ranks have that limit.
void limit_start(World& world);

}  // namespace trireme::comm
