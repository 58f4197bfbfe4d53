// StagingPool: staging buffers, kept from one collective to the next.
// SPDX-License-Identifier: Apache-2.0
#include "comm/staging.hpp"

#include <algorithm>
#include <bit>

namespace trireme::comm {

StagingPool::StagingPool(Device device, std::string label, Memory memory)
    : device_(device), label_("staging of " + std::move(label)), memory_(memory) {}

int StagingPool::acquire(std::int64_t bytes) {
  if (bytes == 0) return none;
  constexpr std::size_t page = 4096;
  const std::size_t size = std::bit_ceil(std::max(static_cast<std::size_t>(bytes), page));
  while (true) {
    int block = smallest_free(size);
    const bool fits = block != none && block_bytes(block) == size;
    const bool may_make = limit_ == 0 || bytes_ + size <= limit_;
    if (!fits && (may_make || (block == none && held_.empty()))) block = make(size);
    if (block != none) {
      blocks_[static_cast<std::size_t>(block)].taken = true;
      return block;
    }
    held_.front().by->finish_and_release();
  }
}

int StagingPool::smallest_free(std::size_t size) const {
  int best = none;
  for (int i = 0; i < static_cast<int>(blocks_.size()); ++i) {
    if (blocks_[static_cast<std::size_t>(i)].taken || block_bytes(i) < size) continue;
    if (best == none || block_bytes(i) < block_bytes(best)) best = i;
  }
  return best;
}

int StagingPool::make(std::size_t size) {
  const Shape shape{static_cast<std::int64_t>(size)};
  constexpr MemoryClass use = MemoryClass::communication;
  blocks_.push_back({memory_ == Memory::pinned
                         ? Buffer::pinned(DType::u8, shape, use, label_)
                         : Buffer(device_, DType::u8, shape, use, label_)});
  bytes_ += size;
  return static_cast<int>(blocks_.size()) - 1;
}

void StagingPool::hold(int block, Holder& holder) {
  if (block != none) held_.push_back({block, &holder});
}

void StagingPool::release(int block) {
  if (block == none) return;
  blocks_[static_cast<std::size_t>(block)].taken = false;
  std::erase_if(held_, [&](const Held& held) { return held.block == block; });
}

std::byte* StagingPool::data(int block) const {
  return static_cast<std::byte*>(
      blocks_[static_cast<std::size_t>(block)].buffer.view().raw());
}

}  // namespace trireme::comm
