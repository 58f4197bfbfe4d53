// Memory bandwidth, for `trireme bench`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme::kernels {

// Best bytes per second over `repeats` sweeps of a triad a = b + s c on arrays of
// `elements` floats each, counting 12 bytes an element, with all threads of this process.
double triad_bandwidth(std::int64_t elements, int repeats);

// Best bytes per second of a pure read of `elements` floats.
double read_bandwidth(std::int64_t elements, int repeats);

}  // namespace trireme::kernels
