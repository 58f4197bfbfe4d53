// The file of a rank of a checkpoint, or of several. No call here is collective.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/directory.hpp"
#include "io/checkpoint_manifest.hpp"

namespace trireme::io {

// What a rank has written.
struct ShardReport {
  FileEntry file;     // no name: no shard
  std::string index;  // of the boxes in it, for IndexGather
};

// The place of a rank among those that write one file, each after the one before it.
struct FileTurn {
  int place = 0, places = 1;
};

// The first ranks name all tensors that they hold, so that one that nobody writes is
// found on the meshes on which the rules of who writes are tested. More ranks would only
// repeat it, and what rank 0 is sent would grow with the boxes that replicas hold.
inline constexpr int ranks_that_name_all = 64;

// Writes the boxes with `write` into `<name>` of a folder and syncs it; nothing when
// there is none. The digests of the boxes are taken from memory, the file ends with an
// index of them, and is read back and compared with them. `names_all`: the report names
// the tensors of the other boxes too, so that one that nobody writes is found. Of
// several ranks that write one file each adds its own, and the last one reads all of it
// back and reports it. Throws Error(cannot_create) or Error(io) naming the file.
ShardReport write_shard(const Directory& folder, const std::string& name,
                        const std::vector<TensorBox>& boxes, bool names_all = true,
                        const FileTurn& turn = {});

// "shard-00003.h5".
std::string shard_name(int number);
// The same with the folder that it lies in where a checkpoint has many:
// "shards-00001/shard-01003.h5". `shards`: that the checkpoint may have.
std::string shard_path(int number, int shards);
// The folders of these; none: all shards lie beside the manifest.
std::vector<std::string> shard_folders(int shards);
// At least as many as lie in a folder with these names, by the greatest number.
int shards_among(const std::vector<std::string>& names);

// The dataset of a shard that holds boxes of a tensor, and the one that holds its index.
std::string dataset_name(const std::string& tensor, std::uint32_t number);
inline constexpr auto index_dataset = "/index";
// Of the rank with this place among those that write the file.
std::string index_dataset_of(int place);

// Size and digest of a file without boxes.
FileEntry file_entry(const std::string& directory, const std::string& name);

// Bytes on the disk of what write_shard() writes, with HDF5's own.
std::int64_t shard_bytes(const std::vector<TensorBox>& boxes);

}  // namespace trireme::io
