// Working memory of the kernels of a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/common/workspace.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/memory.hpp"
#include "base/split.hpp"

namespace trireme::kernels::cuda {
namespace {

// Sizes are rounded up to this, so that a few more rows seldom mean a new buffer.
constexpr std::int64_t granule_bytes = 1 << 20;

struct Workspace {
  Buffer buffer;
  std::int64_t used = 0;
  std::int64_t moves = 0;
};

struct Workspaces {
  std::mutex mutex;
  std::map<int, Workspace> of_device;
};

// Kept for the life of the process: the driver may be gone before a destructor would run.
Workspaces& workspaces() {
  static auto& kept = *new Workspaces;
  return kept;
}

// With at least so many bytes.
Buffer& grown(Stream& stream, Workspace& of, std::int64_t bytes) {
  if (static_cast<std::int64_t>(of.buffer.bytes()) >= bytes) return of.buffer;
  stream.synchronize();  // kernels may still use the old one
  ++of.moves;
  of.buffer = Buffer();
  of.buffer = Buffer(stream.device(), DType::u8, {workspace_held(bytes)},
                     MemoryClass::workspace, "kernel workspace");
  return of.buffer;
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
  Workspace& of = all.of_device[device.index];
  of.used = std::max(of.used, bytes);
  return {grown(stream, of, bytes).view().raw(), dtype, shape, device};
}

std::int64_t workspace_held(std::int64_t bytes) {
  return divide_up(bytes, granule_bytes) * granule_bytes;
}

void reserve_workspace(Stream& stream, std::int64_t bytes) {
  Workspaces& all = workspaces();
  const std::lock_guard lock(all.mutex);
  grown(stream, all.of_device[stream.device().index], bytes);
}

void release_workspace(Stream& stream) {
  stream.synchronize();
  Workspaces& all = workspaces();
  const std::lock_guard lock(all.mutex);
  Workspace& of = all.of_device[stream.device().index];
  of.buffer = Buffer();
  of.used = 0;
  ++of.moves;
}

std::int64_t workspace_moves(Device device) {
  Workspaces& all = workspaces();
  const std::lock_guard lock(all.mutex);
  return all.of_device[device.index].moves;
}

std::int64_t workspace_used(Device device) {
  Workspaces& all = workspaces();
  const std::lock_guard lock(all.mutex);
  return all.of_device[device.index].used;
}

}  // namespace trireme::kernels::cuda
