// Rounding to narrow types from the definition of the formats, in double: the oracle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/dtype.hpp"

namespace trireme::kernels::reference {

// The distance of neighbours around x in bf16, f16, E4M3 or E5M2.
double spacing(double x, DType type);

// The neighbours of |x| in a type, and the chance that stochastic rounding takes the one
// above.
struct Neighbours {
  double below = 0, above = 0, chance = 0;
};
Neighbours neighbours(double x, DType type);

}  // namespace trireme::kernels::reference
