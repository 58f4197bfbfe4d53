// Rotary position embedding in double.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/rope.hpp"

#include <cmath>
#include <complex>

namespace trireme::kernels::reference {

std::vector<double> rope(std::span<const double> x_THK, std::size_t heads, std::size_t K,
                         std::span<const int> positions_T, double theta, double sign) {
  std::vector<double> y(x_THK.begin(), x_THK.end());
  for (std::size_t t = 0; t < positions_T.size(); ++t)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t j = 0; j < K / 2; ++j) {
        const double frequency = std::pow(theta, -2.0 * double(j) / double(K));
        const std::size_t at = (t * heads + h) * K + j;
        const auto z = std::complex<double>(x_THK[at], x_THK[at + K / 2]) *
                       std::polar(1.0, sign * positions_T[t] * frequency);
        y[at] = z.real();
        y[at + K / 2] = z.imag();
      }
  return y;
}

}  // namespace trireme::kernels::reference
