// Emulated asynchronous copies of a thread, and the address of dynamic shared memory.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <cuda_machine/mma.cuh>
#include <cuda_machine/shared.cuh>
#include <limits>

#include "kernels/cuda_emulation/block.hpp"
#include "kernels/cuda_emulation/device_memory.hpp"
#include "kernels/cuda_emulation/fail.hpp"

namespace trireme::cuda_emulation {
namespace {

constexpr std::size_t copied_bytes = 16;

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % copied_bytes == 0;
}

PendingCopies& pending_copies(const Source& where) {
  if (!Engine::get().running()) fail_in_kernel("cp.async outside of a kernel", where);
  return Engine::get().current().pending;
}

}  // namespace

void* dynamic_shared_memory() {
  if (!Engine::get().running()) fail("dynamic_shared() was called outside of a kernel");
  return Engine::get().shared().start();
}

void begin_copy(void* shared, const void* global, bool valid, const Source& where) {
  PendingCopies& pending = pending_copies(where);
  if (!is_aligned(shared) || (valid && !is_aligned(global))) {
    fail_in_kernel("cp_async_16: an address is not a multiple of 16", where);
  }
  if (DeviceMemory::get().is_device(shared)) {
    fail_in_kernel("cp_async_16: the destination is not in shared memory", where);
  }
  std::memset(shared, 0xff, copied_bytes);
  pending.copies.push_back({shared, valid ? global : nullptr, pending.committed});
}

void commit_copies(const Source& where) { ++pending_copies(where).committed; }

void wait_for_copies(unsigned still, const Source& where) {
  PendingCopies& pending = pending_copies(where);
  if (pending.committed < still) return;
  const unsigned finished = pending.committed - still;  // groups before this one
  const auto end = std::find_if(pending.copies.begin(), pending.copies.end(),
                                [&](const auto& copy) { return copy.group >= finished; });
  for (auto copy = pending.copies.begin(); copy != end; ++copy) {
    if (copy->from == nullptr) {
      std::memset(copy->to, 0, copied_bytes);
    } else {
      std::memcpy(copy->to, copy->from, copied_bytes);
    }
  }
  pending.copies.erase(pending.copies.begin(), end);
}

float exp2_flushed(float x) {
  const float y = std::exp2(x);
  return y < std::numeric_limits<float>::min() ? 0.0f : y;
}

}  // namespace trireme::cuda_emulation
