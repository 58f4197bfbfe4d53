// A copy of what a checkpoint holds, so that training can go on while it is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <vector>

#include "base/memory.hpp"
#include "io/checkpoint.hpp"

namespace trireme::io {

class CheckpointSnapshot {
 public:
  // Allocates staging buffers on the host (MemoryClass::offloaded) for the boxes that
  // this rank writes, pinned when any of them lies on a GPU.
  explicit CheckpointSnapshot(const std::vector<TensorBox>& boxes);
  // What it allocates, for boxes on any device, meta too.
  static std::int64_t bytes_for(const std::vector<TensorBox>& boxes);

  // For the same boxes as at the start: where their copies lie, which the call to
  // `later`, in any thread, completes. Boxes on a GPU and those that may change before
  // the next update are copied when begin() returns; the others may change after wait().
  struct Copies {
    std::vector<TensorBox> boxes;
    std::function<void()> later;
  };
  Copies begin(const std::vector<TensorBox>& boxes);
  // Until `later` has been called, or is gone without a call.
  void wait();

 private:
  Buffer memory_;
  std::future<void> copied_;
};

}  // namespace trireme::io
