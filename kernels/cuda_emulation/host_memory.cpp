// Pinned host memory of the emulated device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/host_memory.hpp"

#include <cstdlib>
#include <cstring>

namespace trireme::cuda_emulation {
namespace {

constexpr std::size_t page_bytes = 4096;

}  // namespace

HostMemory& HostMemory::get() {
  static HostMemory& memory = *new HostMemory;
  return memory;
}

void* HostMemory::allocate(std::size_t bytes) {
  void* memory =
      std::aligned_alloc(page_bytes, (bytes + page_bytes - 1) / page_bytes * page_bytes);
  if (memory == nullptr) return nullptr;
  std::memset(memory, 0xff, bytes);
  ranges_.emplace(reinterpret_cast<std::uintptr_t>(memory), Range{bytes, true});
  return memory;
}

bool HostMemory::forget(void* address, bool owned) {
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == ranges_.end() || found->second.owned != owned) return false;
  ranges_.erase(found);
  return true;
}

bool HostMemory::release(void* address) {
  if (!forget(address, true)) return false;
  std::free(address);
  return true;
}

bool HostMemory::add(void* address, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const auto after = ranges_.lower_bound(first);
  if (after != ranges_.end() && after->first < first + bytes) return false;
  if (is_pinned(address, 1)) return false;
  ranges_.emplace(first, Range{bytes, false});
  return true;
}

bool HostMemory::remove(void* address) { return forget(address, false); }

bool HostMemory::is_pinned(const void* address, std::size_t bytes) const {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  auto found = ranges_.upper_bound(first);
  if (found == ranges_.begin()) return false;
  --found;
  return first - found->first < found->second.bytes &&
         bytes <= found->second.bytes - (first - found->first);
}

}  // namespace trireme::cuda_emulation
