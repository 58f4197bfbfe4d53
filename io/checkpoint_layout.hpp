// Which box of which tensor lies in which shard.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/checkpoint_manifest.hpp"
#include "io/hdf5_file.hpp"

namespace trireme::io {

// What one rank wrote.
struct ShardReport {
  struct Box {
    std::string path;    // of the tensor
    std::string source;  // the dataset in the shard
    DType dtype{};
    Shape whole, begin, extent;
    std::int64_t offset = 0;  // in the shard, in bytes
    std::string digest;       // of its bytes in memory
  };
  FileEntry file;  // no name: the rank wrote no shard
  std::vector<Box> boxes;

  std::string text() const;  // for the way to rank 0
  static ShardReport parse(const std::string& text);
};

struct TensorLayout {
  DType dtype{};
  Shape whole;
  std::vector<Hdf5File::Piece> pieces;
  std::vector<BoxEntry> boxes;  // the same, as the manifest lists them
};

// The layout of every tensor, by path. Throws Error(internal) naming tensor and shards
// unless the boxes cover every element of every tensor exactly once.
std::map<std::string, TensorLayout> make_layout(const std::vector<ShardReport>& reports);

}  // namespace trireme::io
