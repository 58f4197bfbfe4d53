// Refuses a deck that does not fit, before anything is allocated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/compute_device.hpp"
#include "plan/memory_room.hpp"

namespace trireme::app {

// What a rank may take here: its GPU's memory, or its share of the node's among
// `ranks_on_node`. Not known for an emulated GPU.
plan::MemoryRoom room_here(const launch::ComputeDevice& on, int ranks_on_node);
// What the machine file says.
plan::MemoryRoom room_on(const plan::Machine& machine);

// Before a plan is made, which takes memory and minutes itself for what is far too large.
// Throws Error(resources) where the weights alone, shared out over all ranks, would take
// several times a rank's room.
void require_room_for_weights(const config::RunConfig& config, int ranks,
                              const plan::MemoryRoom& room);

// words: deck and overrides, to plan changes of it for `ranks`, of which ranks_on_node
// (0: all) share a node. Throws Error(resources) with plan::why_no_room().
void require_room(const std::vector<std::string>& words, int ranks, int ranks_on_node,
                  const config::RunConfig& config, std::span<const plan::Plan> plans,
                  const plan::PlannedDevice& on, const plan::MemoryRoom& room);

// plan::why_out_of_memory(), of this process: advice for a run that cannot allocate all
// that it was planned to need.
std::string out_of_memory_text(const std::vector<std::string>& words, int ranks,
                               int ranks_on_node, const config::RunConfig& config,
                               const plan::PlannedDevice& on);

}  // namespace trireme::app
