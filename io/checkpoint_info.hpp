// What a checkpoint says of itself, by its manifest alone, whatever its index holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/directory.hpp"
#include "io/checkpoint.hpp"

namespace trireme::io {

struct NamedCheckpoint {
  std::string directory;
  CheckpointInfo info;
};

// Of what `path` means, as CheckpointReader takes it; throws as it does, but looks for
// no other file.
NamedCheckpoint checkpoint_info(const std::string& path);
// Of an open folder of a checkpoint. Throws Error(bad_content) and NewerFormat.
CheckpointInfo read_info(const Directory& folder);

}  // namespace trireme::io
