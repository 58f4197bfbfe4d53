// State in checkpoints that a run can do without: error feedback, which goes on where it
// was written and nowhere else, and the scale of the loss.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/world.hpp"
#include "io/checkpoint.hpp"

namespace trireme::train {

// The boxes that the checkpoint at `path` can fill: all, or, where it lacks what error
// feedback carries over for this mesh and layout on any rank, those of the model and its
// optimizer alone, with a line in the log. So too the scale of the loss, where a
// checkpoint of another precision starts fp16. Collective over the world; throws an
// Agreed error as io::CheckpointReader does.
std::vector<io::TensorBox> boxes_to_load(comm::World& world, const std::string& path,
                                         std::vector<io::TensorBox> boxes);

}  // namespace trireme::train
