// Whole tensors from the boxes that ranks hold of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::engine {

struct NamedShape {
  std::string name;  // section/tensor
  Shape shape;
};

std::string name_of(const optim::StateBox& box);

// The tensors of which some rank has a box, in the order of names, the same on every
// rank. Collective over the world.
std::vector<NamedShape> all_tensors(comm::World& world,
                                    const std::vector<optim::StateBox>& boxes);

// whole (written, dense, the boxes' dtype) = the tensor `name` on rank `root` of the
// world, left undefined elsewhere; without a root on every rank. Each element is written
// by one rank, so that the sum over all ranks of boxes in zeros is the whole. Collective
// over the mesh.
void gather_whole(comm::Mesh& mesh, const std::vector<optim::StateBox>& boxes,
                  const std::string& name, const TensorView& whole,
                  std::optional<int> root = {});

}  // namespace trireme::engine
