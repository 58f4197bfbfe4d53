// The files that make shards one checkpoint. No call here is collective.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/directory.hpp"
#include "io/checkpoint_layout.hpp"

namespace trireme::io {

// Writes checkpoint.h5 and, last, the manifest, beside the shards in a folder; all is on
// disk when it returns. Returns the bytes of all files. Throws Error(cannot_create) or
// Error(io), Error(internal) where the shards do not make whole tensors.
std::int64_t complete_checkpoint(const Directory& folder, const CheckpointInfo& info,
                                 const std::vector<ShardReport>& reports);

}  // namespace trireme::io
