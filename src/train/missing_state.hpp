// State of a run that the checkpoint it goes on from may lack.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/world.hpp"
#include "io/checkpoint.hpp"

namespace trireme::train {

// The boxes that a checkpoint, open on every rank, can fill: all, but for what may start
// anew, with a line in the log. That is what error feedback carries over, where the
// checkpoint lacks it for this mesh and layout on any rank, momentum, where it was
// written without any, and the scale of the loss, where a checkpoint of another precision
// starts fp16. optimizer: optimizer.name, which wants the moments among the boxes.
// Collective over the world; throws an Agreed error as io::CheckpointReader does, and
// Error(bad_content), naming both optimizers, where moments are wanted that the
// checkpoint's did not keep.
std::vector<io::TensorBox> boxes_to_load(comm::World& world,
                                         const io::CheckpointReader& reader,
                                         std::vector<io::TensorBox> boxes,
                                         const std::string& optimizer);

}  // namespace trireme::train
