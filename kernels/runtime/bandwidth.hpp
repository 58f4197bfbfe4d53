// Memory bandwidth, for `trireme bench`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/device.hpp"

namespace trireme::kernels {

// Best bytes per second over `repeats` sweeps of a triad a = b + s c on arrays of
// `elements` floats each, counting 12 bytes an element, with all threads of this process.
double triad_bandwidth(std::int64_t elements, int repeats);

// Best bytes per second of a pure read of `elements` floats.
double read_bandwidth(std::int64_t elements, int repeats);

// Bytes per second, read and written ones together, of copies of `bytes` from one array
// to another on a device; the median of `repeats` after one to warm up. On a host by all
// threads; a host's caches help where two arrays fit into them. For tests/bench, which
// holds kernels against it.
double copy_bandwidth(Device device, std::int64_t bytes, int repeats);

}  // namespace trireme::kernels
