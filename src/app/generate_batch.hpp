// `trireme generate --prompts`: many texts, to a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "app/arguments.hpp"
#include "app/deck_arguments.hpp"
#include "app/placement_options.hpp"
#include "comm/world.hpp"

namespace trireme::app {

// Collective. `arguments` are parsed.
int generate_batch(comm::World& world, const Arguments& arguments,
                   const PlacementRequest& placement, OpenedModel opened);

// The mesh of a model's ranks: --pipeline stages, and tensor ranks for the rest. Throws
// Error(resources) where they do not divide the world, the layers or the heads, or where
// heads of linear attention are too few.
comm::MeshShape inference_mesh(const comm::World& world, const Arguments& arguments,
                               const model::ModelConfig& model);

}  // namespace trireme::app
