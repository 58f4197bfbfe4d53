// Working memory that kernels of a GPU take, for plans that are made without one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/device.hpp"

namespace trireme::kernels {

// Counts, while it lives, the most bytes that one kernel called on meta would take from
// the one buffer that all kernels of a GPU share. One at a time, on the calling thread.
class WorkingMemoryCount {
 public:
  WorkingMemoryCount();
  ~WorkingMemoryCount();
  WorkingMemoryCount(const WorkingMemoryCount&) = delete;
  WorkingMemoryCount& operator=(const WorkingMemoryCount&) = delete;

  std::int64_t bytes() const { return bytes_; }

 private:
  friend void note_working_memory(std::int64_t bytes);
  std::int64_t bytes_ = 0;
};

// A kernel's demand, for the count that lives, if one does.
void note_working_memory(std::int64_t bytes);

// What the buffer of all kernels holds once a kernel asked for `bytes`: rounded up.
std::int64_t working_memory_held(std::int64_t bytes);
// What the library of matrix products takes for itself on a GPU of this node, or on one
// of today where the node has none.
std::int64_t product_working_memory();

// Makes the buffer of `device` at least so large now, so that no kernel has to wait for
// it to grow. Nothing but on a GPU. Throws Error(resources).
void reserve_working_memory(Device device, std::int64_t bytes);
// Gives it back; the next kernel that needs one makes a new one. For tests that count.
void release_working_memory(Device device);
// How often it was made or given back so far; work that was recorded with its address is
// no longer valid when this has changed. 0 but on a GPU.
std::int64_t working_memory_moves(Device device);
// The most that a kernel has asked for since then. For tests, which compare it with the
// plan.
std::int64_t working_memory_used(Device device);

}  // namespace trireme::kernels
