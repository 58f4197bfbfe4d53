// Copies of shards in memory of a node that outlives the program.
// SPDX-License-Identifier: Apache-2.0
// A step's folder has shard-00003.h5 as a checkpoint has it, its index in
// shard-00003.index, and shard-00003.json, which is written last: attributes of the
// checkpoint, and the digest of the index, which has those of the file. No call is
// collective.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "io/checkpoint_manifest.hpp"
#include "io/mapped_file.hpp"

namespace trireme::io {

// What a rank's copies take in all, at most: two steps' of its own shard and of
// another's.
std::int64_t copies_bytes(const std::vector<TensorBox>& boxes);

class ShardCopies {
 public:
  // `path`: of the folder of one run and job, which this user alone may enter.
  explicit ShardCopies(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string folder_of(std::int64_t step) const;

  // Makes the folder. Throws Error(cannot_create) when it is another user's, or cannot
  // be.
  void make() const;
  // Throws as make() does where what bears the name is no folder of this user; makes
  // nothing.
  void require_own() const;
  // The same of a step's folder beneath it.
  void make(std::int64_t step) const;
  // Steps that have a folder, ascending, and the shards of one that have been finished.
  std::vector<std::int64_t> steps() const;
  std::vector<int> shards(std::int64_t step) const;

  // Writes this rank's shard, as write_shard() does, with its texts. Throws
  // Error(cannot_create) or Error(io).
  void write(const CheckpointInfo& info, const std::vector<TensorBox>& boxes, int shard,
             int shards) const;

  // What is sent of a shard to another node.
  struct Content {
    ManifestTexts texts;
    std::string name;  // of the file; "": the shard has none
    MappedFile file;
  };
  // Throws Error(bad_content) naming the file when a text is missing or damaged, and as
  // MappedFile::to_read() does.
  Content read(std::int64_t step, int shard) const;
  // Creates and maps a file of `bytes` bytes for a shard that another rank sends; call
  // finish() when all bytes are there. Until finish() the shard is not valid. Throws
  // Error(cannot_create) or Error(io) (no space).
  MappedFile create_file(std::int64_t step, int shard, int shards,
                         std::int64_t bytes) const;
  // Writes the texts that make the shard valid. Throws Error(cannot_create) or Error(io).
  void finish(std::int64_t step, int shard, const ManifestTexts& texts) const;

  // What the texts of a shard say, after every byte of it was compared with its digests.
  // Throws Error(bad_content) naming the file.
  struct Checked {
    ManifestTexts texts;
    CheckpointInfo info;
  };
  Checked check(std::int64_t step, int shard) const;

  // Removes the copies of a step, of all steps before `step` but `keep`, or of all: what
  // cannot be removed is left.
  void remove(std::int64_t step) const;
  void remove_before(std::int64_t step, std::int64_t keep) const;
  void remove_all() const;

 private:
  std::string path_;
};

}  // namespace trireme::io
