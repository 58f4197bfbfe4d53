// Saving and resuming a checkpoint on simulated ranks, by the program's own code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "comm/mesh.hpp"
#include "comm/world.hpp"
#include "io/checkpoint.hpp"

namespace trireme::scale {

// A folder in memory where there is one, which goes away at the end.
class MemoryFolder {
 public:
  MemoryFolder();
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What a rank holds of a checkpoint: its rows of two tensors that all ranks share out,
// and a vector that they hold alike.
class Share {
 public:
  static constexpr int boxes_of_rank = 2;
  Share(int rank, int ranks);
  std::vector<io::TensorBox> boxes();
  // Without the vector that all ranks hold alike.
  std::vector<io::TensorBox> own_boxes();
  void forget();
  // Whether every element has the value that it had at the beginning.
  bool is_whole() const;
  bool has_own() const;  // the same of own_boxes()

 private:
  int rank_, ranks_;
  std::vector<float> weight_, moment_, norm_;
};

inline constexpr std::int64_t first_step = 7;
// Removes the checkpoints of other steps. Leaves views to make_views().
void save(comm::World& world, const std::string& folder, Share& share,
          std::int64_t step = first_step);
// What a thread of rank 0 does behind the checkpoint of the first step.
void make_views(comm::World& world, const std::string& folder);
// Finds the newest checkpoint, compares all digests and fills the share.
void resume(comm::World& world, const comm::Mesh& mesh, const std::string& folder,
            Share& share);
// Bytes of the index of the checkpoint that save() wrote.
double index_bytes_in(const std::string& folder);

}  // namespace trireme::scale
