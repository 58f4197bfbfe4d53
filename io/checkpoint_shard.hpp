// The file of one rank of a checkpoint. No call here is collective.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/directory.hpp"
#include "io/checkpoint_layout.hpp"

namespace trireme::io {

// Writes the boxes with `write` into `shard-<rank>.h5` of a folder and syncs it; nothing
// when there is none. The digests of the boxes are taken from memory, and the file is
// read back and compared with them. Throws Error(cannot_create) or Error(io) naming the
// file.
ShardReport write_shard(const Directory& folder, int rank,
                        const std::vector<TensorBox>& boxes);

// "shard-00003.h5".
std::string shard_name(int number);

// Takes size and digest of a file without boxes.
FileEntry file_entry(const std::string& directory, const std::string& name);

// Bytes on the disk of what write_shard() writes, with HDF5's own.
std::int64_t shard_bytes(const std::vector<TensorBox>& boxes);

}  // namespace trireme::io
