// TraceRange: a named stretch of the program in a profiler's timeline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme {

// From construction to destruction, nested in time (NVTX ranges, which Nsight Systems
// shows). A few nanoseconds without a profiler, nothing in a build without CUDA.
class TraceRange {
 public:
  explicit TraceRange(const char* name);
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace trireme
