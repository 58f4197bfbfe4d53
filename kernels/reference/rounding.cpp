// Rounding to narrow types from the definition of the formats.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/rounding.hpp"

#include <algorithm>
#include <cmath>

#include "base/stochastic_rounding.hpp"

namespace trireme::kernels::reference {

double spacing(double x, DType type) {
  const LowPrecisionFormat format = low_precision_format(type);
  const int exponent = x == 0 ? -1000 : std::ilogb(x);
  return std::ldexp(1.0,
                    std::max(exponent, format.least_exponent) - format.mantissa_bits);
}

Neighbours neighbours(double x, DType type) {
  const double size = std::abs(x), gap = spacing(size, type);
  const double below = std::floor(size / gap) * gap;
  return {below, below + gap, (size - below) / gap};
}

}  // namespace trireme::kernels::reference
