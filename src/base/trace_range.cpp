// TraceRange: for the profilers of GPUs, and for the program's own timeline.
// SPDX-License-Identifier: Apache-2.0
#include "base/trace_range.hpp"

#include "base/cuda/ranges.hpp"
#include "base/timeline.hpp"

namespace trireme {

TraceRange::TraceRange(const char* name) {
  cuda::push_range(name);
  Timeline::begin_range(name);
}

TraceRange::~TraceRange() {
  Timeline::end_range();
  cuda::pop_range();
}

}  // namespace trireme
