// TraceRange: a named stretch of the program in a profiler's timeline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme {

// From construction to destruction, nested in time: for NVTX, which Nsight Systems
// shows, and for the Timeline. Some nanoseconds while nobody records; name: a literal.
class TraceRange {
 public:
  explicit TraceRange(const char* name);
  ~TraceRange();
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;
};

}  // namespace trireme
