// A copy of what a checkpoint holds, so that training can go on while it is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory.hpp"
#include "io/checkpoint.hpp"

namespace trireme::io {

class CheckpointSnapshot {
 public:
  // Allocates room on the host for the boxes that this rank writes (MemoryClass::
  // offloaded), pinned when any of them lies on a GPU.
  explicit CheckpointSnapshot(const std::vector<TensorBox>& boxes);
  // What it allocates, for boxes on any device, meta too.
  static std::int64_t bytes_for(const std::vector<TensorBox>& boxes);

  // Copies the data of the same boxes as at the start, and returns boxes that lie in the
  // copy. The originals may change when it returns.
  std::vector<TensorBox> take(const std::vector<TensorBox>& boxes);

 private:
  Buffer memory_;
};

}  // namespace trireme::io
