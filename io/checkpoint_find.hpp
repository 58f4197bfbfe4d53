// Finding checkpoints: a path means itself, or the newest of a folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/checkpoint_manifest.hpp"

namespace trireme::io {

// The step directory that `path` means: itself, or the newest below it (the highest
// step), as CheckpointReader takes it. Throws Error(missing_input) where there is none,
// and Error(bad_content), naming the file, when the newest lacks a file or one has
// another size than the manifest says; digests are left to CheckpointReader.
std::string find_checkpoint(const std::string& path);

struct NamedCheckpoint {
  std::string directory;
  CheckpointInfo info;
};

// What the checkpoint that `path` means says of itself, by its manifest alone, whatever
// its index holds. Throws as find_checkpoint() does, but looks for no other file.
NamedCheckpoint checkpoint_info(const std::string& path);

// The same, open. What has a step's name is read without being looked at first, for file
// systems with many ranks. `sizes`: as open_checkpoint() has it. Throws as
// find_checkpoint() does.
OpenedCheckpoint find_opened(const std::string& path, bool sizes);

}  // namespace trireme::io
