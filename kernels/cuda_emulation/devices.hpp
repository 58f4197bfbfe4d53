// The emulated devices: how many, of which compute capability, and who has used which.
// SPDX-License-Identifier: Apache-2.0
// They share one memory and one set of streams: a process is meant to use one of them.
#pragma once

#include <cstddef>

#include "cuda_emulation/api_types.hpp"

namespace trireme::cuda_emulation {

// Limits of a compute capability: CUDA C++ Programming Guide, technical specifications.
struct Limits {
  int major, minor;
  std::size_t shared_per_multiprocessor, shared_per_block;  // the latter if asked for
  int threads_per_multiprocessor, blocks_per_multiprocessor;
};
const Limits& limits();

int device_count();
// The card on which a device lies; devices of one card are instances of it (MIG).
int card_of(int device);
int current_device();  // of the calling thread
cudaError_t set_current_device(int device);
// The calling thread's device has a context from now on.
void note_context();

}  // namespace trireme::cuda_emulation
