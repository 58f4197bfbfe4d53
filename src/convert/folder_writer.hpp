// Writing a checkpoint's model as a Hugging Face folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/world.hpp"
#include "io/checkpoint.hpp"
#include "model/model_config.hpp"

namespace trireme::convert {

struct FolderOptions {
  std::optional<DType> dtype;    // of the weights; none: as they are stored
  std::int64_t shard_bytes = 0;  // of a file's tensors; at least one tensor
  // Where tensors are read, if not from the checkpoint as it is, and what that depends on
  // (part of the job's name).
  const io::TensorSource* tensors = nullptr;
  std::string adapters{};
};

struct WrittenFolder {
  std::int64_t tensors = 0, shards = 0;
  std::int64_t kept = 0;  // shards that an earlier try had finished
  std::int64_t bytes = 0;
};

// Collective over the world. Writes `path`, which must not be there, from the tensors
// "model/..." of the checkpoint, file by file, which the ranks share out; each holds one
// tensor at a time. Everything lies under a temporary name until it is whole and synced;
// a call that was stopped leaves it, and the next one of the same job writes what is
// left. Throws an Agreed Error: bad_content when the model has no class in transformers
// or its tensors are not in the checkpoint, cannot_create or io.
WrittenFolder write_folder(comm::World& world, const io::CheckpointReader& checkpoint,
                           const model::ModelConfig& model, const std::string& path,
                           const FolderOptions& options);

}  // namespace trireme::convert
