// A checkpoint whose digests are compared, and boxes filled from it by all ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "train/checkpoint_choice.hpp"
#include "train/checkpoint_load.hpp"

namespace trireme::test {

// Each byte is compared by one rank. Collective over the world; throws as
// train::load_boxes() does.
inline void load_by_all(comm::World& world, const std::string& path,
                        const std::vector<io::TensorBox>& boxes,
                        const std::vector<comm::Group*>& groups = {}) {
  io::CheckpointReader reader(world, path);
  const std::string wrong = train::first_damage(world, reader);
  if (!wrong.empty()) throw comm::Agreed(Status::bad_content, wrong);
  train::load_boxes(world, reader, boxes, groups);
}

}  // namespace trireme::test
