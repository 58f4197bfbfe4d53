// Working memory of the kernels of a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/workspace.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/memory.hpp"
#include "base/split.hpp"

namespace trireme::kernels::cuda {
namespace {

// Sizes are rounded up to this, so that a few more rows seldom mean a new buffer.
constexpr std::int64_t granule_bytes = 1 << 20;

struct Workspaces {
  std::mutex mutex;
  std::map<int, Buffer> of_device;
};

// Kept for the life of the process: the driver may be gone before a destructor would run.
Workspaces& workspaces() {
  static auto& kept = *new Workspaces;
  return kept;
}

}  // namespace

TensorView workspace(Stream& stream, DType dtype, const Shape& shape) {
  const Device device = stream.device();
  require(device.is_cuda() && stream.native() == Stream(device).native(),
          "kernel workspace: it belongs to the stream on which a GPU computes; queue the "
          "kernel on Stream(device)");
  const std::int64_t bytes = std::max<std::int64_t>(shape.elements(), 1) *
                             static_cast<std::int64_t>(size_of(dtype));
  Workspaces& all = workspaces();
  const std::lock_guard lock(all.mutex);
  Buffer& buffer = all.of_device[device.index];
  if (static_cast<std::int64_t>(buffer.bytes()) < bytes) {
    stream.synchronize();  // kernels may still use the old one
    buffer = Buffer();
    buffer = Buffer(device, DType::u8, {divide_up(bytes, granule_bytes) * granule_bytes},
                    MemoryClass::workspace, "kernel workspace");
  }
  return {buffer.view().raw(), dtype, shape, device};
}

}  // namespace trireme::kernels::cuda
