// State that a checkpoint may lack when a run goes on from it.
// SPDX-License-Identifier: Apache-2.0
// It is error feedback of another mesh, momentum of a run without, the loss scale.
#pragma once

#include <string>
#include <vector>

#include "comm/world.hpp"
#include "io/checkpoint.hpp"

namespace trireme::train {

// The boxes that the checkpoint at `path` can fill: all, but for what may start anew,
// with a line in the log. That is what error feedback carries over, where the checkpoint
// lacks it for this mesh and layout on any rank, the momentum of SGD, where it was
// written without, and the scale of the loss, where a checkpoint of another precision
// starts fp16. Collective over the world; throws an Agreed error as io::CheckpointReader
// does, and Error(bad_content) where second moments are wanted that the checkpoint's
// optimizer did not have.
std::vector<io::TensorBox> boxes_to_load(comm::World& world, const std::string& path,
                                         std::vector<io::TensorBox> boxes);

}  // namespace trireme::train
