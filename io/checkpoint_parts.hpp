// A checkpoint written in shards that another try need not write again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "io/checkpoint.hpp"

namespace trireme::io {

struct PartsResult {
  std::int64_t shards = 0;
  std::int64_t kept = 0;  // that an earlier try had finished
};

// Collective over the world. Writes step `info.step` in `directory` as CheckpointWriter
// does, but in the shards that the caller cuts: `shards`, the same on every rank, has the
// boxes of each, and rank r writes every size-th from r on, so that the files do not
// depend on the number of ranks. What a call that was stopped has finished stays under
// the temporary name; the next call with the same text in `job` writes what is left.
// Failing leaves nothing. Throws as CheckpointWriter does, and Error(cannot_create)
// while another process writes there.
PartsResult write_checkpoint_parts(comm::World& world, const std::string& directory,
                                   const CheckpointInfo& info,
                                   const std::vector<std::vector<TensorBox>>& shards,
                                   const std::string& job);

// Whether `directory` holds nothing but what a stopped call has left of this step.
bool holds_parts_only(const std::string& directory, std::int64_t step);

}  // namespace trireme::io
