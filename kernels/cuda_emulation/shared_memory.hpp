// Dynamic shared memory of the running block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace trireme::cuda_emulation {

// Blocks run one at a time, so there is one such memory. It ends at a page without
// access, up to the rounding to 128 bytes; that, and what lies before it, is checked
// after each block.
class SharedMemory {
 public:
  SharedMemory();
  void begin_block(std::size_t bytes);  // all bits 1
  void end_block();                     // fails where something outside was written
  char* start() const { return start_; }

 private:
  char* limit_;  // where the guard page begins
  char* start_;
  std::size_t bytes_ = 0;
};

inline constexpr std::size_t most_shared_bytes =
    232448;  // a block's on compute capability 9.0

}  // namespace trireme::cuda_emulation
