// Error feedback in checkpoints: it goes on where it was written, and nowhere else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/world.hpp"
#include "io/checkpoint.hpp"

namespace trireme::train {

// The boxes that the checkpoint at `path` can fill: all, or, where it lacks what error
// feedback carries over for this mesh and layout on any rank, those of the model and its
// optimizer alone, with a line in the log. Collective over the world; throws an Agreed
// error as io::CheckpointReader does.
std::vector<io::TensorBox> boxes_to_load(comm::World& world, const std::string& path,
                                         std::vector<io::TensorBox> boxes);

}  // namespace trireme::train
