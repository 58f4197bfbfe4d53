// Counting and reserving the working memory of a GPU's kernels.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/working_memory.hpp"

#include <algorithm>

#include "base/cuda_devices.hpp"
#include "base/error.hpp"
#include "base/has_cuda.hpp"
#include "kernels/cuda/common/workspace.hpp"
#include "kernels/cuda/gemm/gemm.hpp"

namespace trireme::kernels {
namespace {

WorkingMemoryCount*& count() {
  thread_local WorkingMemoryCount* living = nullptr;
  return living;
}

}  // namespace

WorkingMemoryCount::WorkingMemoryCount() {
  require(count() == nullptr, "working memory is counted twice at a time");
  count() = this;
}

WorkingMemoryCount::~WorkingMemoryCount() { count() = nullptr; }

void note_working_memory(std::int64_t bytes) {
  if (count() != nullptr) count()->bytes_ = std::max(count()->bytes_, bytes);
}

std::int64_t working_memory_held(std::int64_t bytes) {
  if constexpr (has_cuda) return cuda::workspace_held(bytes);
  return 0;
}

std::int64_t product_working_memory() {
  if constexpr (has_cuda) {
    constexpr int hopper = 9;
    const auto gpus = cuda_devices();
    return cuda::gemm_workspace_bytes(gpus.empty() ? hopper : gpus.front().compute_major);
  }
  return 0;
}

void reserve_working_memory(Device device, std::int64_t bytes) {
  if constexpr (has_cuda) {
    Stream stream(device);
    if (device.is_cuda() && bytes > 0) cuda::reserve_workspace(stream, bytes);
  }
}

void release_working_memory(Device device) {
  if constexpr (has_cuda) {
    Stream stream(device);
    if (device.is_cuda()) cuda::release_workspace(stream);
  }
}

std::int64_t working_memory_moves(Device device) {
  if constexpr (has_cuda) {
    if (device.is_cuda()) return cuda::workspace_moves(device);
  }
  return 0;
}

std::int64_t working_memory_used(Device device) {
  if constexpr (has_cuda) {
    if (device.is_cuda()) return cuda::workspace_used(device);
  }
  return 0;
}

}  // namespace trireme::kernels
