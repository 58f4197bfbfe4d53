// Stacks for CUDA threads, kept for later use, each with a guard page below.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace trireme::cuda_emulation {

struct Stack {
  char* bottom;
  char* top;
  std::size_t bytes() const { return static_cast<std::size_t>(top - bottom); }
};

class Stacks {
 public:
  Stack* take();
  void give(Stack* stack) { free_.push_back(stack); }

 private:
  std::vector<Stack*> free_;
  std::size_t made_ = 0;
};

}  // namespace trireme::cuda_emulation
