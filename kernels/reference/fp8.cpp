// FP8 from its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/fp8.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace trireme::kernels::reference {

double fp8_value(int code, Fp8Format format) {
  const int M = format == Fp8Format::e4m3 ? 3 : 2,
            bias = format == Fp8Format::e4m3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> M, mantissa = code & ((1 << M) - 1);
  const double sign = code & 0x80 ? -1 : 1;
  if (format == Fp8Format::e4m3 && (code & 0x7f) == 0x7f) return std::nan("");
  if (format == Fp8Format::e5m2 && exponent == 31)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  const double fraction = std::ldexp(mantissa, -M) + (exponent > 0 ? 1 : 0);
  return sign * std::ldexp(fraction, std::max(exponent, 1) - bias);
}

int fp8_nearest(double x, Fp8Format format) {
  const auto values_of = [](Fp8Format kind) {
    std::array<double, 0x80> values{};
    for (int code = 0; code < 0x80; ++code)
      values[static_cast<std::size_t>(code)] = fp8_value(code, kind);
    return values;
  };
  static const auto e4m3 = values_of(Fp8Format::e4m3), e5m2 = values_of(Fp8Format::e5m2);
  const auto& values = format == Fp8Format::e4m3 ? e4m3 : e5m2;
  if (std::isnan(x)) return 0x7f;
  const double most = format == Fp8Format::e4m3 ? 448 : 57344;
  const double size = std::min(std::abs(x), most);
  std::size_t best = 0;
  for (std::size_t code = 1; code < values.size(); ++code) {
    if (!std::isfinite(values[code])) continue;
    const double distance = std::abs(size - values[code]);
    const double least = std::abs(size - values[best]);
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return static_cast<int>(best) | (std::signbit(x) ? 0x80 : 0);
}

}  // namespace trireme::kernels::reference
