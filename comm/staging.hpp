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

  // A collective in flight that holds a block, and can be brought to its end.
  class Holder {
   public:
    // Waits for the collective, and releases the block.
    virtual void finish_and_release() = 0;

   protected:
    ~Holder() = default;
  };

  StagingPool(Device device, std::string label, Memory memory = Memory::plain);

  // Limits the pool to `most` bytes (0: no limit). When a new block would exceed the
  // limit, the oldest held blocks are waited for and reused. A single block larger than
  // the limit, and blocks without a Holder, may still exceed it.
  void set_limit(std::int64_t most) { limit_ = static_cast<std::size_t>(most); }
  // A free block of at least `bytes`; `none` for 0 bytes.
  int acquire(std::int64_t bytes);
  // The block's collective is under way: it its holder may be asked to finish and release
  // it.
  void hold(int block, Holder& holder);
  void release(int block);
  // First byte of a block.
  std::byte* data(int block) const;
  std::size_t bytes() const { return bytes_; }

 private:
  struct Block {
    Buffer buffer;
    bool taken = false;
  };
  struct Held {
    int block = none;
    Holder* by = nullptr;
  };

  std::size_t block_bytes(int block) const {
    return blocks_[static_cast<std::size_t>(block)].buffer.bytes();
  }
  // The smallest free block of at least so many bytes, or none.
  int smallest_free(std::size_t size) const;
  int make(std::size_t size);

  Device device_;
  std::string label_;
  Memory memory_;
  std::vector<Block> blocks_;
  std::vector<Held> held_;  // those that were taken first come first
  std::size_t bytes_ = 0, limit_ = 0;
};

}  // namespace trireme::comm
