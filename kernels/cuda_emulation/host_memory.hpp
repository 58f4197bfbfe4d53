// Pinned host memory: which ranges were allocated or registered as such.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace trireme::cuda_emulation {

class HostMemory {
 public:
  static HostMemory& get();

  void* allocate(std::size_t bytes);  // page-aligned, bits 1; null where it does not fit
  bool release(void* address);        // false where none begins there
  bool add(void* address, std::size_t bytes);  // false where registered already
  bool remove(void* address);
  bool is_pinned(const void* address, std::size_t bytes) const;

 private:
  struct Range {
    std::size_t bytes;
    bool owned;
  };
  bool forget(void* address, bool owned);

  std::map<std::uintptr_t, Range> ranges_;
};

}  // namespace trireme::cuda_emulation
