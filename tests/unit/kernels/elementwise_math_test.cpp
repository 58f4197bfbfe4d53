// Accuracy of exp and of the logistic function, and every bit of the conversions.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/host/vector_math.hpp"

namespace trireme::kernels {
namespace {

// |value - exact| in units in the last place of A at `exact`.
template <class A>
double ulps(A value, long double exact) {
  if (exact > static_cast<long double>(std::numeric_limits<A>::max()))
    return std::isinf(value) || value == std::numeric_limits<A>::max() ? 0.0 : 1e30;
  const int lowest = std::numeric_limits<A>::min_exponent - 1;
  const int exponent = exact == 0 ? lowest : std::max(lowest, std::ilogb(exact));
  const long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<A>::digits + 1);
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) / ulp);
}

TEST(VectorMath, FloatExpIsWithinTwoUlpOverTheWholeRange) {
  double worst = 0;
  float at = 0;
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 997) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(x)) continue;
    const double error = ulps(exponential(x), std::exp(static_cast<double>(x)));
    if (error > worst) worst = error, at = x;
  }
  for (float x = -104.5f; x < 89.0f; x += 0x1p-12f) {
    const double error = ulps(exponential(x), std::exp(static_cast<double>(x)));
    if (error > worst) worst = error, at = x;
  }
  EXPECT_LE(worst, 2.0) << "at " << at;
  std::printf("float exp: %.3f ulp at %g\n", worst, static_cast<double>(at));
}

TEST(VectorMath, DoubleExpIsWithinTwoUlpOverTheWholeRange) {
  double worst = 0, at = 0;
  for (double x = -746.0; x < 710.0; x += 0.00137) {
    const double error = ulps(exponential(x), std::exp(static_cast<long double>(x)));
    if (error > worst) worst = error, at = x;
  }
  for (double x = 1; x > 1e-310; x *= 0.37)
    for (const double signed_x : {x, -x})
      worst = std::max(worst, ulps(exponential(signed_x),
                                   std::exp(static_cast<long double>(signed_x))));
  EXPECT_LE(worst, 2.0) << "at " << at;
  std::printf("double exp: %.3f ulp at %g\n", worst, at);
}

template <class A>
void check_limits() {
  const A infinity = std::numeric_limits<A>::infinity();
  const A largest = std::numeric_limits<A>::max();
  EXPECT_EQ(exponential(infinity), infinity);
  EXPECT_EQ(exponential(largest), infinity);
  EXPECT_EQ(exponential(-infinity), A(0));
  EXPECT_EQ(exponential(-largest), A(0));
  EXPECT_EQ(exponential(A(0)), A(1));
  EXPECT_EQ(exponential(A(-0.0)), A(1));
  EXPECT_EQ(exponential(std::numeric_limits<A>::denorm_min()), A(1));
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<A>::quiet_NaN())));
  EXPECT_TRUE(
      std::isnan(exponential_of_nonpositive(-std::numeric_limits<A>::quiet_NaN())));
  EXPECT_EQ(logistic(infinity).value, A(1));
  EXPECT_EQ(logistic(infinity).complement, A(0));
  EXPECT_EQ(logistic(-infinity).value, A(0));
  EXPECT_EQ(logistic(A(0)).value, A(0.5));
  EXPECT_TRUE(std::isnan(logistic(std::numeric_limits<A>::quiet_NaN()).value));
}

TEST(VectorMath, LimitsOfExpAndLogistic) {
  check_limits<float>();
  check_limits<double>();
}

// exp, an addition, a division and a product: 2 + 3 times half an ulp, and the relative
// error of a value just above a power of two weighs double.
TEST(VectorMath, LogisticIsAccurateInBothTails) {
  double worst = 0;
  for (float x = -103.0f; x < 103.0f; x += 0x1p-8f) {
    const auto e = std::exp(-static_cast<long double>(x));
    worst = std::max(worst, ulps(logistic(x).value, 1 / (1 + e)));
    worst = std::max(worst, ulps(logistic(x).complement, e / (1 + e)));
  }
  EXPECT_LE(worst, 5.0);
}

// Where the series ends (0.17) e^a - 1 is -0.29, so that 2 ulp of e^a weigh at most 5
// there; an addition and a division follow. Below, the series errs like exp.
TEST(VectorMath, TanhIsAccurateNearZeroAndFarAway) {
  double worst_float = 0, worst_double = 0;
  for (double x = -20; x < 20; x += 0x1.1p-10) {
    const auto narrow = static_cast<float>(x);
    worst_float = std::max(
        worst_float,
        ulps(hyperbolic_tangent(narrow), std::tanh(static_cast<long double>(narrow))));
    worst_double = std::max(worst_double, ulps(hyperbolic_tangent(x),
                                               std::tanh(static_cast<long double>(x))));
  }
  for (double x = 1; x > 1e-36; x *= 0.83) {
    const auto narrow = static_cast<float>(-x);
    worst_float = std::max(
        worst_float,
        ulps(hyperbolic_tangent(narrow), std::tanh(static_cast<long double>(narrow))));
    worst_double = std::max(worst_double, ulps(hyperbolic_tangent(x),
                                               std::tanh(static_cast<long double>(x))));
  }
  EXPECT_LE(worst_float, 7.0);
  EXPECT_LE(worst_double, 7.0);
  std::printf("tanh: %.3f ulp in float, %.3f in double\n", worst_float, worst_double);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(hyperbolic_tangent(infinity), 1.0);
  EXPECT_EQ(hyperbolic_tangent(-infinity), -1.0);
  EXPECT_TRUE(std::signbit(hyperbolic_tangent(-0.0)));
  EXPECT_TRUE(std::isnan(hyperbolic_tangent(std::numeric_limits<float>::quiet_NaN())));
}

TEST(VectorMath, EveryHalfIsLoadedExactly) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    Float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float expected = static_cast<float>(half), loaded = load(half);
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(loaded)) << bits;
    else
      ASSERT_EQ(std::bit_cast<std::uint32_t>(loaded),
                std::bit_cast<std::uint32_t>(expected))
          << bits;
  }
}

// Of all upper halves, with the lower ones around a tie and at both ends.
TEST(VectorMath, BfloatsAreStoredAsTheirTypeRounds) {
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const std::uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const auto x = std::bit_cast<float>(upper << 16 | lower);
      ASSERT_EQ(store<BFloat16>(x).bits, BFloat16(x).bits) << upper << " " << lower;
    }
}

TEST(VectorMath, HalvesAreStoredAsTheCompilerDoes) {
  const auto check = [](std::uint32_t bits) {
    const auto x = std::bit_cast<float>(bits);
    if (std::isnan(x))
      ASSERT_TRUE(std::isnan(static_cast<float>(store<Float16>(x)))) << bits;
    else
      ASSERT_EQ(store<Float16>(x).bits, Float16(x).bits) << bits;
  };
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 1009)
    check(static_cast<std::uint32_t>(bits));
  // All ties and their neighbours: halfway between two halves.
  for (std::uint32_t half = 0; half < 0x7c00; ++half) {
    Float16 low, high;
    low.bits = static_cast<std::uint16_t>(half);
    high.bits = static_cast<std::uint16_t>(half + 1);
    const float above = half + 1 == 0x7c00 ? 65536.0f : static_cast<float>(high);
    const float middle = 0.5f * (static_cast<float>(low) + above);
    const auto bits = std::bit_cast<std::uint32_t>(middle);
    for (const std::uint32_t b : {bits - 1, bits, bits + 1}) {
      check(b);
      check(b | 0x80000000u);
    }
  }
}

}  // namespace
}  // namespace trireme::kernels
