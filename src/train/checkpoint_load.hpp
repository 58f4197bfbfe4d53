// Filling boxes of tensors from a checkpoint: each rank its own, or one rank for all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "io/checkpoint.hpp"

namespace trireme::train {

// Fills every box (its `path`, `whole`, `begin`, `data`) from the checkpoint at `path`
// and returns its attributes, on every rank. Collective over the world; throws an Agreed
// error as io::CheckpointReader does.
//
// Every rank opens the files and reads the bytes of its boxes, no others. Before that the
// digests of all files are compared, each byte by one rank, unless they have just been
// (verified).
io::CheckpointInfo load_by_all(comm::World& world, const std::string& path,
                               const std::vector<io::TensorBox>& boxes,
                               bool verified = false);
// Rank 0 alone opens the files, and hands out one tensor at a time: no rank holds more
// than its boxes and one tensor. For file systems that many readers would overload.
io::CheckpointInfo load_by_one(comm::World& world, comm::Mesh& mesh,
                               const std::string& path,
                               const std::vector<io::TensorBox>& boxes,
                               bool verified = false);

}  // namespace trireme::train
