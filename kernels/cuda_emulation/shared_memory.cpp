// Dynamic shared memory of the running block.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/shared_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kernels/cuda_emulation/fail.hpp"
#include "kernels/cuda_emulation/sanitizer.hpp"

namespace trireme::cuda_emulation {
namespace {

constexpr std::size_t alignment = 128;
constexpr unsigned char canary = 0xa5;

bool is_intact(const char* first, const char* last) {
  return std::all_of(first, last,
                     [](char c) { return static_cast<unsigned char>(c) == canary; });
}

}  // namespace

SharedMemory::SharedMemory() {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t body = (most_shared_bytes + alignment + page) / page * page;
  void* memory = ::mmap(nullptr, body + 2 * page, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char* first = static_cast<char*>(memory) + page;
  if (memory == MAP_FAILED || ::mprotect(first, body, PROT_READ | PROT_WRITE) != 0) {
    fail(std::string("no memory for shared memory: ") + std::strerror(errno));
  }
  limit_ = first + body;
  start_ = limit_;
}

void SharedMemory::begin_block(std::size_t bytes) {
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  bytes_ = bytes;
  start_ = limit_ - rounded;
  if (bytes == 0) return;
  std::memset(start_ - alignment, canary, alignment);
  std::memset(start_, 0xff, bytes);
  std::memset(start_ + bytes, canary, rounded - bytes);
  forbid_access(start_ - alignment, alignment);
  forbid_access(start_ + bytes, rounded - bytes);
}

void SharedMemory::end_block() {
  if (bytes_ == 0) return;
  allow_access(start_ - alignment, static_cast<std::size_t>(limit_ - start_) + alignment);
  if (!is_intact(start_ - alignment, start_)) {
    fail("a block wrote before the start of its dynamic shared memory of " +
         std::to_string(bytes_) + " bytes");
  }
  if (!is_intact(start_ + bytes_, limit_)) {
    fail("a block wrote past the end of its dynamic shared memory of " +
         std::to_string(bytes_) + " bytes");
  }
}

}  // namespace trireme::cuda_emulation
