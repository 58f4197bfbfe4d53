// Memory that is owned: Buffer, Arena, and the ledger that counts every byte by class.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/tensor_view.hpp"

namespace trireme {

enum class MemoryClass : std::uint8_t {
  weights,
  gradients,
  optimizer,
  activations,
  communication,
  workspace,
  data,
  offloaded  // in the host's memory, not on the device that computes
};
inline constexpr int memory_classes = 8;
std::string_view name_of(MemoryClass c);

// What this process holds in one class. Meta memory is never counted.
struct MemoryUse {
  std::int64_t bytes = 0;        // now
  std::int64_t peak_bytes = 0;   // at most, since start
  std::int64_t allocations = 0;  // since start
};

MemoryUse memory_use(MemoryClass c);
// Number of allocations of all classes since start: constant in the steady state.
std::int64_t memory_allocations();
// Memory of this process that the system holds in RAM, libraries and all; 0 if unknown.
std::int64_t resident_bytes();

// Owns one aligned allocation on a device (nothing on meta), zero-filled. Bytes
// are entered in the ledger under `use`. Throws Error(resources) naming label and size
// when the memory cannot be allocated. Movable, not copyable.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device device, DType dtype, const Shape& shape, MemoryClass use,
         std::string_view label);
  // On the host, where devices reach it directly and copies go on without the host.
  static Buffer pinned(DType dtype, const Shape& shape, MemoryClass use,
                       std::string_view label);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  const TensorView& view() const { return view_; }
  std::size_t bytes() const { return view_.empty() ? 0 : view_.bytes(); }

 private:
  Buffer(Device device, DType dtype, const Shape& shape, MemoryClass use,
         std::string_view label, bool pinned);
  void release();

  TensorView view_;
  MemoryClass use_ = MemoryClass::workspace;
  bool pinned_ = false;
};

// A stack of tensors in one buffer. On meta, capacity is unlimited and peak_bytes() tells
// what a real arena needs: the same calls give the same peak on every device.
class Arena {
 public:
  static constexpr std::size_t alignment = 64;

  // Of `capacity` bytes; on meta without limit.
  Arena(Device device, std::size_t capacity, MemoryClass use, std::string_view label);

  // A dense tensor above all others; contents are undefined. Throws Error(internal)
  // naming `label` when it does not fit.
  TensorView take(DType dtype, const Shape& shape, std::string_view label);

  // mark() remembers the height of the stack, release() returns to it.
  std::size_t mark() const { return top_; }
  void release(std::size_t mark);
  void reset() { release(0); }

  std::size_t peak_bytes() const { return peak_; }
  std::size_t capacity() const { return capacity_; }
  Device device() const { return device_; }

 private:
  Device device_;
  std::size_t capacity_ = 0;
  std::size_t top_ = 0;
  std::size_t peak_ = 0;
  std::string label_;
  Buffer buffer_;
};

// Releases what was taken from an arena during this object's life.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.release(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  std::size_t mark_;
};

}  // namespace trireme
