// Emulated device memory: addresses that the host cannot touch between their uses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

namespace trireme::cuda_emulation {

inline constexpr std::size_t device_bytes = std::size_t{8} << 30;

// Each allocation is surrounded by canaries and filled with bits 1. A freed one is filled
// again, rests for a while and is checked before its addresses are used again.
class DeviceMemory {
 public:
  static DeviceMemory& get();

  void* allocate(std::size_t bytes);  // null where it does not fit
  bool release(void* address);        // false where no allocation begins there
  bool is_device(const void* address) const;
  bool is_allocated(const void* address, std::size_t bytes) const;
  bool begins_allocation(const void* address) const;
  void check() const;  // needs open memory

  // Between them the host may touch device memory. They nest.
  void open();
  void close();

  std::size_t used() const { return used_; }
  std::size_t peak() const { return peak_; }
  void reset_peak() { peak_ = used_; }

 private:
  using Address = std::uintptr_t;
  DeviceMemory();
  Address find_room(std::size_t total);
  void check(Address address, std::size_t bytes) const;
  void forget_oldest();
  void protect(bool accessible);

  char* base_ = nullptr;
  std::size_t reserved_ = 0;
  std::size_t reached_ = 0;    // bytes from base_ ever handed out
  std::size_t protected_ = 0;  // bytes from base_ whose access is switched
  int open_ = 0;
  std::map<Address, std::size_t> live_;  // bytes by first address
  struct Freed {
    Address address;
    std::size_t bytes;
  };
  std::deque<Freed> freed_;  // oldest first
  std::size_t freed_bytes_ = 0;
  std::map<Address, std::size_t> room_;  // with canaries, by first address; no two touch
  std::size_t used_ = 0, peak_ = 0;
};

// Opens device memory for as long as it lives.
class OpenMemory {
 public:
  OpenMemory() { DeviceMemory::get().open(); }
  ~OpenMemory() { DeviceMemory::get().close(); }
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;
};

}  // namespace trireme::cuda_emulation
