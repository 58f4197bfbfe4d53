// Rotary position embedding in double: the oracle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace trireme::kernels::reference {

// Heads of width K rotated by angles position / theta^(2 j / K), as complex numbers
// x[j] + i x[j + K / 2]. sign = -1 rotates back.
std::vector<double> rope(std::span<const double> x_THK, std::size_t heads, std::size_t K,
                         std::span<const int> positions_T, double theta, double sign);

}  // namespace trireme::kernels::reference
