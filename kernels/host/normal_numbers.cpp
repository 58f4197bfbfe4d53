// Normal numbers as floats, in loops that compilers vectorise.
// SPDX-License-Identifier: Apache-2.0
// The library's logarithm and cosine take most of the time of Random::normal(), one
// number after the other. Here both are series, whose result and the library's lie within
// a known distance of each other: where every number in that distance rounds to the same
// float, that is the result. Elsewhere, once in about 500,000 numbers, Random::normal()
// is asked.
#include "kernels/host/normal_numbers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace trireme::kernels {
namespace {

constexpr std::size_t lanes = 64;

// What the two ways may differ by, relative: each rounds less than 20 times on the way,
// and the series leave out less than 2^-50. 2^-44 is more than ten times as much.
constexpr double doubt = 0x1p-44;

// The integer in the lowest bits of x + 2^52, for a double that holds it.
double small_integer(std::uint64_t x) {
  return std::bit_cast<double>(0x4330000000000000u | x) - 0x1p52;
}

// Logarithm of u in [2^-53, 1]: u = 2^k m with m in [sqrt(1/2), sqrt(2)), and
// log m = 2 artanh s = 2 (s + s^3 / 3 + s^5 / 5 + ...) with s = (m - 1) / (m + 1), |s| <
// 0.172.
double logarithm(double u) {
  constexpr std::uint64_t root_of_half = 0x3fe6a09e667f3bcdu, bias = 64;
  const auto bits = std::bit_cast<std::uint64_t>(u);
  const std::uint64_t k = (bits - root_of_half + (bias << 52)) >> 52;
  const double f = std::bit_cast<double>(bits - ((k - bias) << 52)) - 1.0;
  const double s = f / (2.0 + f), z = s * s;
  double tail = 1.0 / 19;
  tail = tail * z + 1.0 / 17;
  tail = tail * z + 1.0 / 15;
  tail = tail * z + 1.0 / 13;
  tail = tail * z + 1.0 / 11;
  tail = tail * z + 1.0 / 9;
  tail = tail * z + 1.0 / 7;
  tail = tail * z + 1.0 / 5;
  tail = tail * z + 1.0 / 3;
  constexpr double log_2 = 0x1.62e42fefa39efp-1;
  return (small_integer(k) - static_cast<double>(bias)) * log_2 +
         (2.0 * s + 2.0 * s * (z * tail));
}

// Cosine of t in [0, 2 pi]: t = k pi/2 + r with |r| <= pi/4. pi/2 is a number of 50 bits
// and the rest, so that r has all its bits where the cosine is near zero.
double cosine(double t) {
  constexpr double half_pi = 0x1.921fb54442d18p0, rest = 0x1.1a62633145c07p-54;
  constexpr double two_by_pi = 0x1.45f306dc9c883p-1, shift = 0x1.8p52;
  const double shifted = t * two_by_pi + shift;
  const double k = shifted - shift;
  const double r = (t - k * half_pi) - k * rest, z = r * r;
  double even = 1.0 / 20922789888000;  // 1 / 16!
  even = even * z - 1.0 / 87178291200;
  even = even * z + 1.0 / 479001600;
  even = even * z - 1.0 / 3628800;
  even = even * z + 1.0 / 40320;
  even = even * z - 1.0 / 720;
  even = even * z + 1.0 / 24;
  even = even * z - 0.5;
  double odd = -1.0 / 1307674368000;  // 1 / 15!
  odd = odd * z + 1.0 / 6227020800;
  odd = odd * z - 1.0 / 39916800;
  odd = odd * z + 1.0 / 362880;
  odd = odd * z - 1.0 / 5040;
  odd = odd * z + 1.0 / 120;
  odd = odd * z - 1.0 / 6;
  const double cosine_r = even * z + 1.0, sine_r = odd * z * r + r;
  const auto quadrant = std::bit_cast<std::uint64_t>(shifted);
  const double magnitude = (quadrant & 1) != 0 ? sine_r : cosine_r;
  return ((quadrant + 1) & 2) != 0 ? -magnitude : magnitude;
}

struct Uniforms {
  alignas(64) double u[lanes];
  alignas(64) double angle[lanes];
};

// The angles are rounded here, as in Random::normal(), before anything is done with them.
void draw(const Random& random, std::uint64_t first, Uniforms& out) {
#pragma omp simd
  for (std::size_t i = 0; i < lanes; ++i) {
    const auto [u, angle] = random.polar(first + i);
    out.u[i] = u;
    out.angle[i] = angle;
  }
}

// False if a number may round to another float than that of Random::normal().
bool transform(const Uniforms& drawn, double deviation, float* out) {
  int doubtful = 0;
#pragma omp simd reduction(+ : doubtful)
  for (std::size_t i = 0; i < lanes; ++i) {
    const double x =
        deviation * (std::sqrt(-2.0 * logarithm(drawn.u[i])) * cosine(drawn.angle[i]));
    const float least = static_cast<float>(x * (1.0 - doubt)),
                most = static_cast<float>(x * (1.0 + doubt));
    out[i] = most;
    doubtful += least != most ? 1 : 0;
  }
  return doubtful == 0;
}

}  // namespace

void normal_numbers(const Random& random, std::uint64_t first, double deviation,
                    std::span<float> out) {
  Uniforms drawn;
  alignas(64) float block[lanes];
  for (std::size_t at = 0; at < out.size(); at += lanes) {
    const std::size_t count = std::min(lanes, out.size() - at);
    draw(random, first + at, drawn);
    if (!transform(drawn, deviation, block)) {
      for (std::size_t i = 0; i < count; ++i)
        block[i] = static_cast<float>(deviation * random.normal(first + at + i));
    }
    std::copy_n(block, count, out.data() + at);
  }
}

}  // namespace trireme::kernels
