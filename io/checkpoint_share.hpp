// The parts of a checkpoint's index that a rank needs, sent by the one that read it.
// SPDX-License-Identifier: Apache-2.0
// Rank 0 holds the whole index and passes it by in blocks; each other rank keeps the few
// entries that it will use, so that its memory does not grow with the job.
#pragma once

#include <vector>

#include "comm/world.hpp"
#include "io/checkpoint_verify.hpp"

namespace trireme::io {

// Collective over the world; `manifest` is whole on rank 0. The others get all tensors.
// Throws Error(bad_content) on a rank that cannot parse what came, as parse_index() does.
void receive_tensors(comm::World& world, Manifest& manifest);

// Collective. The same, and of files and boxes those of which they compare the share of
// their rank. Returns where these lie, for verify_share(). Throws as receive_tensors()
// does, and Error(internal) where the boxes that came are not whole.
SharePlace receive_share(comm::World& world, Manifest& manifest);

// Collective. The same for the boxes that hold a part of any of `wanted`, and their
// files, which take the place of those that were there. Throws as receive_share() does.
void receive_boxes(comm::World& world, Manifest& manifest,
                   const std::vector<TensorBox>& wanted);

// Do the box and the one at `begin` have elements in common?
bool meets(const BoxRecord& box, const Shape& begin, const Shape& extent);

}  // namespace trireme::io
