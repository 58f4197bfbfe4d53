// A restart from copies in the memory of nodes, on simulated ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "scale/checkpoint_phases.hpp"
#include "train/partner_copies.hpp"

namespace trireme::scale {

// The memory of the node that a rank is on: a folder beneath `folder`, which is the
// run's.
std::string node_memory(const std::string& folder, int node);
// Makes these, and the record of the run's last start. Of one rank.
void make_nodes(const std::string& folder, int nodes);

// What a start makes for copies: it finds out who shares a node.
std::unique_ptr<train::PartnerCopies> find_partners(comm::World& world, comm::Mesh& mesh,
                                                    const std::string& folder);
// A rank's shard of what no other rank holds, in the memory of its own node and of the
// next one.
void copy_shard(const std::string& folder, int rank, int ranks, Share& share);
// Each rank gets its boxes back.
void restart(comm::World& world, const comm::Mesh& mesh, train::PartnerCopies& copies,
             Share& share);

}  // namespace trireme::scale
