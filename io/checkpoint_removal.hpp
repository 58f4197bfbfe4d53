// Removing old checkpoints and what crashes left: each rank its share of the shards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/directory.hpp"
#include "comm/world.hpp"

namespace trireme::io {

// Says of names in the folder of checkpoints how many shards are below each, a line for
// each: rank 0 makes it, and all ranks are told. Empty when there are no names.
std::string removal_list(const Directory& folder, const std::vector<std::string>& names);

// Removes this rank's share of the shards of a list, an equal part of their numbers. What
// cannot be removed, or is not where shards of that many ranks are, stays.
void remove_share(const std::string& directory, const std::string& list, int rank,
                  int ranks);

// Removes all that is left of a list, on one rank, after the others' shares. The names
// that cannot be removed.
std::vector<std::string> remove_rest(const std::string& directory,
                                     const std::string& list);

// Warns of a name in the folder of checkpoints that cannot be removed, unless `told`, to
// which it is added, has it.
void warn_that_it_stays(const std::string& directory, const std::string& name,
                        std::set<std::string>& told);

// Removes what earlier runs left, after a whole checkpoint that was set aside for one
// that never came has its name back. What cannot be removed stays, with a warning as
// above, but for `needed`, the name of what is to be made next. The names that the folder
// then has, on rank 0; none when it is not there. Collective. Throws an Agreed
// Error(cannot_create).
std::vector<std::string> clear_leftovers(comm::World& world, const std::string& directory,
                                         const std::string& needed,
                                         std::set<std::string>& told);
// The same when no leftover is needed.
std::vector<std::string> clear_leftovers(comm::World& world,
                                         const std::string& directory);

}  // namespace trireme::io
