// The index of a checkpoint: its files, tensors and boxes, as bytes.
// SPDX-License-Identifier: Apache-2.0
// A shard holds an index of its own boxes; all of them together make that of the
// checkpoint. docs/checkpoint-format.md has the layout.
#pragma once

#include <string>
#include <vector>

#include "io/checkpoint_manifest.hpp"

namespace trireme::io {

// What lies before the records of the boxes (BoxTable::bytes()), which end the index.
std::string index_head(const Manifest& manifest);
std::string index_bytes(const Manifest& manifest);

// Fills files, tensors and boxes. `path` is the file, for messages. Throws
// Error(bad_content) naming it and the entry when bytes are missing or left over, names
// are not plain or listed twice, tensors are not sorted, or a box is not in its file. The
// manifest takes the memory of `bytes` where they are moved: an index may be large.
void parse_index(const std::string& path, std::string bytes, Manifest& manifest);

// Throws Error(bad_content) naming the tensor unless its boxes, where they are known, are
// every element of it once.
void require_whole(const std::string& path, const Manifest& manifest);

// The index of a checkpoint from those of its shards, in their order. Each text is given
// up when it has been used. Throws Error(internal) where shards differ in the type or the
// shape of a tensor.
Manifest merge_indices(std::vector<std::string> shards);

}  // namespace trireme::io
