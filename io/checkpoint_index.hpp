// The index of a checkpoint: its files, tensors and boxes, as bytes.
// SPDX-License-Identifier: Apache-2.0
// A shard holds an index of its own boxes; all of them together make that of the
// checkpoint. docs/checkpoint-format.md has the layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint_manifest.hpp"

namespace trireme::io {

// What lies before the records of the boxes (BoxTable::bytes()), which end the index.
std::string index_head(const Manifest& manifest);
std::string index_bytes(const Manifest& manifest);

// May files of an index have the same name? Those of ranks that share a shard do until
// they are one.
enum class FileNames : std::uint8_t { distinct, any };

// Fills files, tensors and boxes. `path` is the file, for messages. Throws
// Error(bad_content) naming it and the entry when bytes are missing or left over, names
// are not plain or listed twice, tensors are not sorted, or a box is not in its file. The
// manifest takes the memory of `bytes` where they are moved: an index may be large.
void parse_index(const std::string& path, std::string bytes, Manifest& manifest,
                 FileNames names = FileNames::distinct);

// Throws Error(bad_content) naming the tensor unless its boxes, where they are known, are
// every element of it once.
void require_whole(const std::string& path, const Manifest& manifest);

// A manifest from the indices of few shards, in their order; io/index_merge.hpp is for
// many. Throws as IndexMerge and parse_index() do.
Manifest merge_indices(const std::vector<std::string>& shards);

}  // namespace trireme::io
