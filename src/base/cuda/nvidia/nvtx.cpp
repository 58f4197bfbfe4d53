// TraceRange: named ranges for NVIDIA's profilers, through NVTX.
// SPDX-License-Identifier: Apache-2.0
#include <nvtx3/nvToolsExt.h>

#include "base/trace_range.hpp"

namespace trireme {

TraceRange::TraceRange(const char* name) { nvtxRangePushA(name); }
TraceRange::~TraceRange() { nvtxRangePop(); }

}  // namespace trireme
