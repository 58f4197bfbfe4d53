// For the front ends of kernels: what a call would take on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/device.hpp"
#include "base/has_cuda.hpp"
#include "kernels/runtime/working_memory.hpp"

namespace trireme::kernels {

// On meta note_working_memory(bytes()); bytes() is asked only in a build that knows GPUs.
template <class Bytes>
void plan_working_memory(const Stream& stream, const Bytes& bytes) {
  if constexpr (has_cuda) {
    if (stream.device().is_meta()) note_working_memory(bytes());
  }
}

}  // namespace trireme::kernels
