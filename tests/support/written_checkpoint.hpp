// A checkpoint written while its ranks wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "io/checkpoint_writer.hpp"

namespace trireme::test {

// Returns when it and its views are there. `keep`: as of Retention. Collective over the
// world; throws as io::CheckpointWriter does.
inline void write_checkpoint(comm::World& world, const std::string& directory,
                             const io::CheckpointInfo& info,
                             const std::vector<io::TensorBox>& boxes, int keep) {
  io::Retention retention;
  retention.keep = keep;
  io::CheckpointWriter writer(world, directory, retention, 1, io::RunIn::caller);
  writer.begin(info, boxes, false);
  writer.finish();
  writer.finish_views();
}

}  // namespace trireme::test
