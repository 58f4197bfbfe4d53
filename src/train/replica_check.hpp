// Comparing what several ranks hold alike, bit by bit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "io/checkpoint.hpp"

namespace trireme::train {

// Every box of a tensor that more than one rank holds (the same tensor, place and extent)
// must have the same bits on all of them: weights and moments over the data axis, norms
// over the tensor axis, a tied table at both ends of the pipeline. Collective over the
// world. What one rank alone holds is not compared.
//
// Throws an Agreed Error(corruption) naming the tensor, the ranks that differ from most,
// and the most, on every rank.
//
// Cost: a hash (XXH3) of all boxes; with up to `gathered` ranks 16 bytes a box from each
// to rank 0, with more the same within each group of the mesh (differing_place()). Only
// where a group differs do all ranks tell what they hold there, 16 bytes each.
inline constexpr int gathered_ranks = 64;
void check_replicas(comm::World& world, comm::Mesh& mesh,
                    const std::vector<io::TensorBox>& boxes, std::int64_t step,
                    int gathered = gathered_ranks);

}  // namespace trireme::train
