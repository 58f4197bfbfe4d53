// Turns of blocks, emulated: blocks run one by one, and nobody waits.
// SPDX-License-Identifier: Apache-2.0
// The real header of this name describes each function.
#pragma once

#include <cuda_runtime.h>

#include <source_location>

namespace trireme::cuda_emulation {

// A turn that has not come would never come: that is an error.
void check_turn(const unsigned* counter, unsigned turn,
                const std::source_location& where);

}  // namespace trireme::cuda_emulation

namespace trireme::kernels::cuda {

__device__ inline void wait_for_turn(
    const unsigned* counter, unsigned turn,
    const std::source_location& where = std::source_location::current()) {
  cuda_emulation::check_turn(counter, turn, where);
}
__device__ inline void give_turn(unsigned* counter, unsigned turn) { *counter = turn; }
__device__ inline void load_fresh(const float* from, float (&to)[4]) {
  for (int i = 0; i < 4; ++i) to[i] = from[i];
}

}  // namespace trireme::kernels::cuda
