// Filling boxes of tensors from a checkpoint: each rank its own, or one rank for others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "io/checkpoint.hpp"

namespace trireme::train {

// Fills every box (its `path`, `whole`, `begin`, `data`) from an open checkpoint whose
// digests have been compared. Each rank reads the bytes of its boxes and no others. Where
// all ranks of one of the `groups` hold a box, one of them reads it for all. Collective
// over the world; throws an Agreed error as io::CheckpointReader does.
void load_boxes(comm::World& world, const io::CheckpointReader& reader,
                const std::vector<io::TensorBox>& boxes,
                const std::vector<comm::Group*>& groups);
// The groups of a mesh whose ranks hold equal boxes under one sharding strategy or
// another.
std::vector<comm::Group*> replica_groups(const comm::Mesh& mesh);

// The same from the checkpoint at `path`. Rank 0 alone opens the files, whose digests it
// compares first unless they are `verified`, and hands out a few MiB at a time: no rank
// holds more beside its boxes. For file systems that many readers would overload.
void load_by_one(comm::World& world, comm::Mesh& mesh, const std::string& path,
                 const std::vector<io::TensorBox>& boxes, bool verified = false);

}  // namespace trireme::train
