// Rotary position embedding in double: the oracle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/rope.hpp"

namespace trireme::kernels::reference {

// `width` numbers of each head of width K, which `heads` chooses, rotated by angles
// position / theta^(2 j / width), as complex numbers of pairs. sign = -1 rotates back.
std::vector<double> rope(std::span<const double> x_THK, const RotaryHeads& heads,
                         std::size_t K, std::size_t width,
                         std::span<const int> positions_T, double theta, double sign);

// The same of all numbers, with pairs x[j] + i x[j + K / 2].
std::vector<double> rope(std::span<const double> x_THK, std::size_t heads, std::size_t K,
                         std::span<const int> positions_T, double theta, double sign);

}  // namespace trireme::kernels::reference
