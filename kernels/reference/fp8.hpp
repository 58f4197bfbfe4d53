// FP8 from its definition, in double: the oracle of codes and of rounding to them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/fp8.hpp"

namespace trireme::kernels::reference {

// What a code stands for: sign, exponent and mantissa.
double fp8_value(int code, Fp8Format format);

// The code of the nearest finite number, by a search over all; of two, the even one. NaN
// has 0x7f.
int fp8_nearest(double x, Fp8Format format);

}  // namespace trireme::kernels::reference
