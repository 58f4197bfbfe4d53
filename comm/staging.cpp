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
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].taken || blocks_[i].buffer.bytes() != size) continue;
    blocks_[i].taken = true;
    return static_cast<int>(i);
  }
  const Shape shape{static_cast<std::int64_t>(size)};
  constexpr MemoryClass use = MemoryClass::communication;
  blocks_.push_back({memory_ == Memory::pinned
                         ? Buffer::pinned(DType::u8, shape, use, label_)
                         : Buffer(device_, DType::u8, shape, use, label_),
                     true});
  bytes_ += size;
  return static_cast<int>(blocks_.size()) - 1;
}

void StagingPool::release(int block) {
  if (block != none) blocks_[static_cast<std::size_t>(block)].taken = false;
}

std::byte* StagingPool::data(int block) const {
  return static_cast<std::byte*>(
      blocks_[static_cast<std::size_t>(block)].buffer.view().raw());
}

}  // namespace trireme::comm
