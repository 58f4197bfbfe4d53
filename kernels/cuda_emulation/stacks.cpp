// Stacks for CUDA threads.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_emulation/stacks.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "kernels/cuda_emulation/fail.hpp"
#include "kernels/cuda_emulation/sanitizer.hpp"

namespace trireme::cuda_emulation {
namespace {

// The sanitizer's frames are several times as large. Memory is used only where touched.
constexpr std::size_t stack_bytes = has_address_sanitizer ? 1 << 20 : 256 << 10;

Stack* make_stack(std::size_t index) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* memory = ::mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || ::mprotect(memory, page, PROT_NONE) != 0) {
    fail(std::string("no memory for a CUDA thread's stack: ") + std::strerror(errno));
  }
  char* bottom = static_cast<char*>(memory) + page;
  // Tops at the same place of each page would all fall into the same few lines of the
  // cache.
  return new Stack{bottom, bottom + stack_bytes - index * 320 % 4096 / 64 * 64};
}

}  // namespace

Stack* Stacks::take() {
  if (free_.empty()) return make_stack(made_++);
  Stack* stack = free_.back();
  free_.pop_back();
  // Frames that were left for good have not cleaned up behind them.
  const std::size_t left = has_address_sanitizer ? 16384 : 0;
  allow_access(stack->top - left, left);
  return stack;
}

}  // namespace trireme::cuda_emulation
