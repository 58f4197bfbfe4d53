// The order of samples: a pure function of (seed, global sample index).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme::train {

// Number of the sample, in [0, samples), that is trained on as number `global_index`,
// counted from 0 over the whole run. Each run of `samples` indices (an epoch) visits
// every sample once, in an order that differs from epoch to epoch. No memory, no state:
// any mesh, and any run that resumes, computes the same order.
//   seed:         of the run
//   global_index: >= 0
//   samples:      of the source, >= 1
// Cost: under 4 evaluations of the permutation on average, 8 Philox blocks each.
// Throws Error(internal) for arguments out of range.
// Source: a Feistel network (Luby and Rackoff, 1988) with cycle walking (Black and
// Rogaway, 2002).
std::int64_t sample_at(std::uint64_t seed, std::int64_t global_index,
                       std::int64_t samples);

}  // namespace trireme::train
