// What NVIDIA's profilers are told: ranges, and when to record.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::cuda {

// Ranges of this thread, nested in time (NVTX, which Nsight Systems shows). A few
// nanoseconds without a profiler, nothing in a build without CUDA.
void push_range(const char* name);
void pop_range();

}  // namespace trireme::cuda
