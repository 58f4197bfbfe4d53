// TraceRange on the emulated device: there is no profiler.
// SPDX-License-Identifier: Apache-2.0
#include "base/trace_range.hpp"

namespace trireme {

TraceRange::TraceRange(const char*) {}
TraceRange::~TraceRange() = default;

}  // namespace trireme
