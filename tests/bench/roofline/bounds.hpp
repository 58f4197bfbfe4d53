// What limits a kernel on a GPU: registers and memory, and the units that it keeps busy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "bench/roofline/mix.hpp"
#include "bench/roofline/tables.hpp"

namespace trireme::bench {

// Warps of a multiprocessor that registers, shared memory and blocks allow, of 64.
int resident_warps(const KernelCode& kernel, const HotKernel& row, const GpuRates& gpu);

// Predicted, never measured. Of a kernel on tensor cores: cycles of a multiprocessor for
// one pass of a warp through the hot loop, by the unit that is busy longest. Of a
// streaming kernel: seconds for an element.
struct Bound {
  std::string unit;         // "tensor cores", "shared memory", "issue", "memory"
  double flop_rate = 0;     // FLOP a second of the GPU, on tensor cores
  double seconds = 0;       // an element, streaming
  double instructions = 0;  // an element and thread, streaming
};
Bound bound_of(const KernelCode& kernel, const HotKernel& row, const GpuRates& gpu);

}  // namespace trireme::bench
