// The manifest of a checkpoint: what it holds, where, and the digest of every file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/directory.hpp"
#include "io/box_table.hpp"
#include "io/checkpoint.hpp"
#include "io/stored_boxes.hpp"

namespace trireme::io {

inline constexpr std::int64_t checkpoint_format = 2;
inline constexpr auto manifest_name = "manifest.json";
inline constexpr auto index_name = "index.bin";
// MPI sends no longer text; ten times what 10,000 ranks of a 70B model make.
inline constexpr std::int64_t index_limit_bytes = INT32_MAX;
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

// The same on every rank.
class AgreedNewerFormat : public comm::Agreed {
 public:
  using comm::Agreed::Agreed;
};

// Which checkpoints stay when a new one stands.
struct Retention {
  int keep = 0;                    // of the newest; 0: all
  std::int64_t keep_every = 0;     // and steps that this divides; 0: none
  std::int64_t started_from = -1;  // and this step
};

struct Manifest {
  CheckpointInfo info;
  std::vector<FileEntry> files;      // all but the manifest, the index and their views
  std::vector<TensorEntry> tensors;  // sorted by path; digests are empty
  BoxTable boxes;  // of each tensor; none of one that has elements: not known

  // Box `i` of a tensor, without its digest.
  BoxEntry box(std::size_t tensor, std::size_t i) const;
};

// The two files that say what a checkpoint holds, as bytes: those of format 1 have a
// manifest only.
struct ManifestTexts {
  std::string manifest, index;
};

// What the checkpoint in a folder says of itself. Throws Error(bad_content) and
// NewerFormat.
CheckpointInfo read_info(const Directory& folder);
// Reads them. Throws Error(bad_content) naming the file when it lacks, is too long, or
// the index is not the one that the manifest names; NewerFormat.
ManifestTexts read_texts(const Directory& folder);
// What the texts say, after all that can be checked without other files. Throws
// Error(bad_content) naming the file and the entry; NewerFormat.
Manifest parse_texts(const std::string& directory, ManifestTexts texts);
// The same, but for whether the boxes are whole tensors (require_whole()).
Manifest parse_listed(const std::string& directory, ManifestTexts texts);
// Throws Error(bad_content) unless the directory has the step's name, and all files that
// the manifest lists, with these sizes where `sizes` says so, and no other shard.
void check_files(const Directory& folder, const Manifest& manifest, bool sizes);

// A checkpoint's folder, open, and what it holds.
struct OpenedCheckpoint {
  Directory folder;
  std::string text;  // of the manifest
  Manifest manifest{};
  bool has_index = false;
};

// All of these. Throws Error(bad_content) too where there is no such directory.
OpenedCheckpoint open_checkpoint(const std::string& directory, bool sizes);
Manifest read_manifest(const std::string& directory);

// "" if the directory holds a complete checkpoint, or what is wrong. Share `part`
// of `parts` of its bytes is checked (io/checkpoint_verify.hpp); with parts = 0 none.
// Throws NewerFormat.
std::string why_incomplete(const std::string& directory, int part, int parts);
// The same by the names of the files alone: none of them is asked for its size.
std::string why_not_all_there(const std::string& directory);

// Is it the name of a file of a checkpoint: of one in its folder, or in one of the
// folders of shards in it?
bool is_member_name(const std::string& name);
// Has it neither spaces nor control characters? Such texts are passed on word by word.
bool is_word(const std::string& text);

// Names in a directory, sorted; none if there is no directory of this name. Throws
// Error(missing_input) or Error(io) for one that cannot be read.
std::vector<std::string> names_in(const std::string& directory);
// "step-00000200".
std::string step_name(std::int64_t step);
// The reverse; none for other names.
std::optional<std::int64_t> step_of(const std::string& name);
// The steps among names, ascending.
std::vector<std::int64_t> steps_among(const std::vector<std::string>& names);
// Steps that have a directory below `directory`, complete or not, ascending.
std::vector<std::int64_t> steps_in(const std::string& directory);
// What `latest` names, or "".
std::string latest_target(const Directory& folder);
std::string latest_target(const std::string& directory);

// "pipeline=1 data=2 context=1 tensor=2".
std::string mesh_text(const comm::MeshShape& mesh);

}  // namespace trireme::io
