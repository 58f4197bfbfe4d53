// The manifest of a checkpoint: what it holds, and the digest of every file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "io/stored_boxes.hpp"

namespace trireme::io {

inline constexpr std::int64_t checkpoint_format = 1;
inline constexpr auto manifest_name = "manifest.json";
inline constexpr auto whole_name = "checkpoint.h5";
inline constexpr auto latest_name = "latest";

struct FileEntry {
  std::string name;  // in the checkpoint's directory
  std::int64_t bytes = 0;
  std::string digest;  // of the whole file
  std::string frame;   // of all its bytes that lie in no box; "": it has no boxes
};

// Written by a program with a newer format. Not damage: no older checkpoint is taken
// instead.
class NewerFormat : public Error {
 public:
  using Error::Error;
};

// Which checkpoints stay when a new one stands.
struct Retention {
  int keep = 0;                    // of the newest; 0: all
  std::int64_t keep_every = 0;     // and steps that this divides; 0: none
  std::int64_t started_from = -1;  // and this step
};

struct Manifest {
  CheckpointInfo info;
  std::vector<FileEntry> files;              // all but the manifest itself, sorted
  std::vector<TensorEntry> tensors;          // sorted by path; digests are empty
  std::vector<std::vector<BoxEntry>> boxes;  // of each tensor; empty: not known
};

// JSON that ends with a digest of everything before it.
std::string manifest_text(const Manifest& manifest);

// Reads and checks the manifest, and that the directory holds the files that it lists,
// with these sizes, and no other shard. Throws Error(bad_content) naming the
// file and, in the manifest, the entry.
Manifest read_manifest(const std::string& directory);

// "" if the directory holds a complete checkpoint, or what is wrong. Share `part`
// of `parts` of its bytes is checked (io/checkpoint_verify.hpp); with parts = 0 none.
// Throws NewerFormat.
std::string why_incomplete(const std::string& directory, int part, int parts);

// Names in a directory, sorted; none if it cannot be read.
std::vector<std::string> names_in(const std::string& directory);
// "step-00000200".
std::string step_name(std::int64_t step);
// The reverse; none for other names.
std::optional<std::int64_t> step_of(const std::string& name);
// Steps that have a directory below `directory`, complete or not, ascending.
std::vector<std::int64_t> steps_in(const std::string& directory);
// What `latest` names, or "".
std::string latest_target(const std::string& directory);

// "pipeline=1 data=2 context=1 tensor=2".
std::string mesh_text(const comm::MeshShape& mesh);

}  // namespace trireme::io
