// Rotary position embedding in double.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/rope.hpp"

#include <cmath>
#include <complex>

namespace trireme::kernels::reference {

std::vector<double> rope(std::span<const double> x_THK, const RotaryHeads& heads,
                         std::size_t K, std::size_t width,
                         std::span<const int> positions_T, double theta, double sign) {
  std::vector<double> y(x_THK.begin(), x_THK.end());
  const auto H = static_cast<std::size_t>(heads.heads);
  const auto begin = static_cast<std::size_t>(heads.first);
  for (std::size_t t = 0; t < positions_T.size(); ++t)
    for (std::size_t h = 0; h < H; ++h)
      for (std::size_t j = 0; j < width / 2; ++j) {
        const double frequency = std::pow(theta, -2.0 * double(j) / double(width));
        const std::size_t at = (t * H + h) * K + begin;
        const std::size_t real = at + (heads.neighbours ? 2 * j : j);
        const std::size_t imaginary = real + (heads.neighbours ? 1 : width / 2);
        const auto z = std::complex<double>(x_THK[real], x_THK[imaginary]) *
                       std::polar(1.0, sign * positions_T[t] * frequency);
        y[real] = z.real();
        y[imaginary] = z.imag();
      }
  return y;
}

std::vector<double> rope(std::span<const double> x_THK, std::size_t heads, std::size_t K,
                         std::span<const int> positions_T, double theta, double sign) {
  return rope(x_THK, RotaryHeads{static_cast<std::int64_t>(heads)}, K, K, positions_T,
              theta, sign);
}

}  // namespace trireme::kernels::reference
