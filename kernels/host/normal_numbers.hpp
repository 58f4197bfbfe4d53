// Normal numbers as floats, several at a time, with the bits of Random::normal().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/philox.hpp"

namespace trireme::kernels {

// out[i] = float(deviation * random.normal(first + i)), to the bit.
void normal_numbers(const Random& random, std::uint64_t first, double deviation,
                    std::span<float> out);

}  // namespace trireme::kernels
