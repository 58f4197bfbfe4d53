// StagingPool: memory that collectives in flight receive into.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/memory.hpp"

namespace trireme::comm {

// Blocks of power-of-two sizes that are made once and used again: a program that repeats
// its pattern of collectives allocates nothing in the second round. On meta it counts the
// same bytes and holds none.
class StagingPool {
 public:
  static constexpr int none = -1;
  enum class Memory : bool { plain, pinned };  // pinned: on the host, for devices

  StagingPool(Device device, std::string label, Memory memory = Memory::plain);

  // A free block of at least `bytes`; `none` for 0 bytes.
  int acquire(std::int64_t bytes);
  void release(int block);
  // First byte of a block.
  std::byte* data(int block) const;
  std::size_t bytes() const { return bytes_; }

 private:
  struct Block {
    Buffer buffer;
    bool taken = false;
  };

  Device device_;
  std::string label_;
  Memory memory_;
  std::vector<Block> blocks_;
  std::size_t bytes_ = 0;
};

}  // namespace trireme::comm
