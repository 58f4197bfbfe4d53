// Writing a checkpoint's model as a Hugging Face folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "convert/kept_files.hpp"
#include "convert/quantized_writer.hpp"
#include "io/tensor_source.hpp"
#include "model/model_config.hpp"

namespace trireme::convert {

struct FolderOptions {
  std::optional<DType> dtype;    // of the weights; none: as they are stored
  std::int64_t shard_bytes = 0;  // of a file's tensors; at least one tensor
  Quantize quantize{};
};

// What a folder is made of: a checkpoint, or another folder.
struct FolderSource {
  const io::TensorSource& tensors;
  std::function<DType(const std::string& name)> type_of;  // of a tensor of the model
  std::vector<KeptFile> kept;
  std::string digest;  // of all that the written files depend on here
};

struct WrittenFolder {
  std::int64_t tensors = 0, shards = 0;
  std::int64_t kept = 0;  // shards that an earlier try had finished
  std::int64_t bytes = 0;
};

// Throws Error(bad_content) for a tensor that the checkpoint, which outlives this, lacks.
FolderSource source_of(const io::CheckpointReader& checkpoint);

// Collective over the world. Writes `path`, which must not be there, from the tensors
// "model/..." of the source, file by file, which the ranks share out; each holds one
// tensor at a time. Everything lies under a temporary name until it is whole and synced;
// a call that was stopped leaves it, and the next one of the same job writes what is
// left. Throws an Agreed Error: bad_content when the model has no class in transformers
// or its tensors are not in the source, cannot_create, also while another process writes
// the same folder, or io.
WrittenFolder write_folder(comm::World& world, const FolderSource& source,
                           const model::ModelConfig& model, const std::string& path,
                           const FolderOptions& options);

}  // namespace trireme::convert
