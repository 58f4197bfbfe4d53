// Emulated device memory: its allocation, and who may touch it when.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/device_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>

#include "kernels/cuda_emulation/fail.hpp"
#include "kernels/cuda_emulation/sanitizer.hpp"

namespace trireme::cuda_emulation {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t canary_bytes = 256;  // also the alignment that CUDA promises
constexpr std::size_t resting_bytes = std::size_t{64} << 20;
constexpr unsigned char canary = 0xa5, poison = 0xff;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}
// With canaries on both sides.
std::size_t total_bytes(std::size_t bytes) {
  return canary_bytes + round_up(bytes, canary_bytes) + canary_bytes;
}
char* pointer(std::uintptr_t address) { return reinterpret_cast<char*>(address); }

// The first byte of [first, last) that is not `value`, or `last`.
const char* first_other(const char* first, const char* last, unsigned char value) {
  return std::find_if(first, last,
                      [value](char c) { return static_cast<unsigned char>(c) != value; });
}

std::string in_words(std::uintptr_t address, std::size_t bytes) {
  char text[96];
  std::snprintf(text, sizeof text, "device memory of %zu bytes at 0x%llx", bytes,
                static_cast<unsigned long long>(address));
  return text;
}

}  // namespace

DeviceMemory& DeviceMemory::get() {
  static DeviceMemory& memory = *new DeviceMemory;
  return memory;
}

DeviceMemory::DeviceMemory() {
  void* memory = MAP_FAILED;
  for (reserved_ = std::size_t{64} << 30; memory == MAP_FAILED && reserved_ >= huge_page;
       reserved_ /= 2) {
    memory = ::mmap(nullptr, reserved_ + huge_page, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) break;
  }
  if (memory == MAP_FAILED) fail("no addresses for device memory");
  base_ = pointer(round_up(reinterpret_cast<Address>(memory), huge_page));
  // The cost of switching the access is one of pages; without large ones it is only
  // slower.
  static_cast<void>(::madvise(base_, reserved_, MADV_HUGEPAGE));
  static_cast<void>(::madvise(base_, reserved_, MADV_DONTDUMP));
}

void DeviceMemory::protect(bool accessible) {
  if (protected_ == 0) return;
  if (::mprotect(base_, protected_, accessible ? PROT_READ | PROT_WRITE : PROT_NONE) !=
      0) {
    fail(std::string("mprotect of device memory failed: ") + std::strerror(errno));
  }
}

void DeviceMemory::open() {
  if (open_++ == 0) protect(true);
}

void DeviceMemory::close() {
  if (--open_ == 0) protect(false);
}

// First fit among what was freed, else behind all that was ever used.
DeviceMemory::Address DeviceMemory::find_room(std::size_t total) {
  for (auto room = room_.begin(); room != room_.end(); ++room) {
    if (room->second < total) continue;
    const auto [address, bytes] = *room;
    room_.erase(room);
    if (bytes > total) room_.emplace(address + total, bytes - total);
    allow_access(pointer(address), total);
    return address;
  }
  if (total > reserved_ - reached_) return 0;
  const Address address = reinterpret_cast<Address>(base_) + reached_;
  reached_ += total;
  if (reached_ > protected_) {
    protected_ = std::min(round_up(reached_, huge_page), reserved_);
    protect(true);
  }
  return address;
}

void* DeviceMemory::allocate(std::size_t bytes) {
  if (bytes > device_bytes - used_) return nullptr;
  const OpenMemory open;
  const std::size_t total = total_bytes(bytes);
  Address first = find_room(total);
  while (first == 0 && !freed_.empty()) {
    forget_oldest();
    first = find_room(total);
  }
  if (first == 0) return nullptr;
  char* const data = pointer(first) + canary_bytes;
  char* const end = pointer(first) + total;
  std::memset(pointer(first), canary, canary_bytes);
  std::memset(data, poison, bytes);
  std::memset(data + bytes, canary, static_cast<std::size_t>(end - data) - bytes);
  forbid_access(pointer(first), canary_bytes);
  forbid_access(data + bytes, static_cast<std::size_t>(end - data) - bytes);
  live_.emplace(reinterpret_cast<Address>(data), bytes);
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return data;
}

bool DeviceMemory::release(void* address) {
  const auto found = live_.find(reinterpret_cast<Address>(address));
  if (found == live_.end()) return false;
  const auto [first, bytes] = *found;
  const OpenMemory open;
  check(first, bytes);
  std::memset(address, poison, bytes);
  forbid_access(address, bytes);
  live_.erase(found);
  used_ -= bytes;
  freed_.push_back({first, bytes});
  freed_bytes_ += bytes;
  while (freed_bytes_ > resting_bytes) forget_oldest();
  return true;
}

// What rested longest must be as it was left; its room can be used again.
void DeviceMemory::forget_oldest() {
  const auto [address, bytes] = freed_.front();
  freed_.pop_front();
  freed_bytes_ -= bytes;
  allow_access(pointer(address), bytes);
  const char* end = pointer(address) + bytes;
  const char* other = first_other(pointer(address), end, poison);
  if (other != end) {
    fail(in_words(address, bytes) + " was written after it was freed, at byte " +
         std::to_string(other - pointer(address)));
  }
  Address first = address - canary_bytes;
  std::size_t total = total_bytes(bytes);
  if (total >= huge_page) {  // give the pages back to the system
    const Address page = round_up(first, huge_page);
    const Address last = (first + total) / huge_page * huge_page;
    if (page < last) ::madvise(pointer(page), last - page, MADV_DONTNEED);
  }
  auto after = room_.lower_bound(first);
  if (after != room_.end() && first + total == after->first) {
    total += after->second;
    after = room_.erase(after);
  }
  if (after != room_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == first) {
      before->second += total;
      return;
    }
  }
  room_.emplace(first, total);
}

void DeviceMemory::check(Address address, std::size_t bytes) const {
  char* const first = pointer(address) - canary_bytes;
  char* const data_end = pointer(address) + bytes;
  char* const last = first + total_bytes(bytes);
  const auto after = static_cast<std::size_t>(last - data_end);
  allow_access(first, canary_bytes);
  allow_access(data_end, after);
  const char* before = first_other(first, pointer(address), canary);
  const char* behind = first_other(data_end, last, canary);
  if (before != pointer(address)) {
    fail(in_words(address, bytes) + ": something was written " +
         std::to_string(pointer(address) - before) + " bytes before its start");
  }
  if (behind != last) {
    fail(in_words(address, bytes) + ": something was written " +
         std::to_string(behind - data_end) + " bytes past its end");
  }
  forbid_access(first, canary_bytes);
  forbid_access(data_end, after);
}

void DeviceMemory::check() const {
  for (const auto& [address, bytes] : live_) check(address, bytes);
}

bool DeviceMemory::is_device(const void* address) const {
  return address >= base_ && address < base_ + reserved_;
}

bool DeviceMemory::is_allocated(const void* address, std::size_t bytes) const {
  const auto first = reinterpret_cast<Address>(address);
  auto found = live_.upper_bound(first);
  if (found == live_.begin()) return false;
  --found;
  return first - found->first <= found->second &&
         bytes <= found->second - (first - found->first);
}

bool DeviceMemory::begins_allocation(const void* address) const {
  return live_.contains(reinterpret_cast<Address>(address));
}

}  // namespace trireme::cuda_emulation
