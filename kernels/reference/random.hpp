// Random numbers as the paper writes them, digit by digit: the oracle of base/philox.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace trireme::kernels::reference {

// Philox 4 x 32 with ten rounds; products made of 16-bit digits.
// Source: Salmon, Moraes, Dror, Shaw, 2011, section 3.3.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key);

}  // namespace trireme::kernels::reference
