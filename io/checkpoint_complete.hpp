// The files that make shards one checkpoint. No call here is collective.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/directory.hpp"
#include "io/checkpoint_manifest.hpp"

namespace trireme::io {

// Writes the index and, last, the manifest, beside the shards in a folder; all is on disk
// when it returns, and has been read as it will be for a resume. `indices`: of the
// shards, or of some of them each, in their order; given up on the way. Returns the bytes
// of all files. Throws Error(cannot_create) or Error(io), Error(resources) for an index
// that no reader would take, and Error(internal) where the shards do not make whole
// tensors.
std::int64_t complete_checkpoint(const Directory& folder, const CheckpointInfo& info,
                                 std::vector<std::string> indices);

}  // namespace trireme::io
