// Which checkpoint of a run's own to go on from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "comm/world.hpp"

namespace trireme::train {

// The newest checkpoint below `directory` whose files are as they were written, all
// digests compared, which the ranks share out; "" when there is no checkpoint. Of each
// damaged one that is passed over there is a warning, which names the file and what is
// taken. What a crash left in the folder is mended: leftovers go, and `latest` points at
// the checkpoint that is returned. Rank 0 holds the run's lock. Collective.
// Throws an Agreed Error(bad_content) when all are damaged, or when the newest was
// written by a program with a newer format.
std::string newest_whole_checkpoint(comm::World& world, const std::string& directory);

// Mends the folder so for a start from elsewhere: `latest` points at the newest that has
// all its files. Collective. Throws an Agreed Error(cannot_create) or Error(io).
void tidy_checkpoints(comm::World& world, const std::string& directory);

}  // namespace trireme::train
