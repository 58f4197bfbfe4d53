// Philox, even splits, windows of rows, and conversions to the 16-bit types.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "base/philox.hpp"
#include "base/row_windows.hpp"
#include "base/split.hpp"

namespace trireme {
namespace {

using Counter = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

// The known answers that the authors publish with Random123 (kat_vectors,
// philox4x32-10): all zeros, all ones, and the digits of pi.
TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, IsAFunctionOfSeedStreamStepAndIndex) {
  const Random random(7, hash_name("a"), 3);
  EXPECT_EQ(random.bits(11), Random(7, hash_name("a"), 3).bits(11));
  std::set<std::uint64_t> seen;
  for (const std::uint64_t big : {0ull, 1ull, 1ull << 32, 1ull << 63}) {
    seen.insert(Random(1 + big, 1, 1).bits(1));
    seen.insert(Random(100, 100 + big, 1).bits(1));
    seen.insert(Random(200, 1, 1).bits(200 + big));
  }
  for (std::uint32_t step = 0; step < 4; ++step) {
    seen.insert(Random(300, 1, step).bits(1));
  }
  EXPECT_EQ(seen.size(), 16u) << "an upper or lower half is ignored";
}

// Sums over n draws: each bound is five standard deviations of the statistic, so that a
// right generator passes all of them but for one seed in a million.
TEST(Random, HasTheMomentsOfItsDistributions) {
  constexpr int n = 40000;
  const Random random(1, 2);
  double sum = 0, sum_normal = 0, squares = 0;
  std::array<int, 7> hits{};
  for (std::uint64_t i = 0; i < n; ++i) {
    const double u = random.uniform(i), z = random.normal(i);
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
    sum_normal += z;
    squares += z * z;
    ++hits.at(random.below(i, hits.size()));
  }
  const double root = std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12) / root);
  EXPECT_NEAR(sum_normal / n, 0.0, 5 / root);
  EXPECT_NEAR(squares / n, 1.0, 5 * std::sqrt(2.0) / root);
  const double p = 1.0 / static_cast<double>(hits.size());
  for (const int count : hits) EXPECT_NEAR(count, n * p, 5 * std::sqrt(n * p * (1 - p)));
}

// The published values of FNV-1a for "" and "a".
TEST(HashName, IsFnv1a) {
  EXPECT_EQ(hash_name(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_name("a"), 0xaf63dc4c8601ec8cu);
}

TEST(SplitRange, CoversTheRangeInOrderWithLengthsThatDifferByOne) {
  for (const std::int64_t total : {0, 1, 2, 5, 7, 64, 997}) {
    for (const std::int64_t parts : {1, 2, 3, 4, 8, 11}) {
      std::int64_t next = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const Range range = split_range(total, parts, i);
        EXPECT_EQ(range.begin, next);
        EXPECT_EQ(range.count(), total / parts + (i < total % parts ? 1 : 0));
        next = range.end;
      }
      EXPECT_EQ(next, total);
    }
  }
  EXPECT_EQ(divide_up(0, 3), 0);
  EXPECT_EQ(divide_up(6, 3), 2);
  EXPECT_EQ(divide_up(7, 3), 3);
}

TEST(RowWindows, AreAllRowsSoManyAtATimeAndAtLeastOne) {
  using Windows = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const auto windows = [](std::int64_t rows, std::int64_t row, std::int64_t most) {
    Windows all;
    for (const auto [first, count] : RowWindows(rows, row, most))
      all.emplace_back(first, count);
    return all;
  };
  EXPECT_EQ(windows(7, 10, 39), (Windows{{0, 3}, {3, 3}, {6, 1}}));
  EXPECT_EQ(windows(2, 10, 9), (Windows{{0, 1}, {1, 1}}));
  EXPECT_EQ(windows(3, 0, 2), (Windows{{0, 2}, {2, 1}}));
  EXPECT_EQ(windows(3, 10, 1000), (Windows{{0, 3}}));
  EXPECT_EQ(windows(0, 10, 1000), Windows{});
}

float after_bf16(float value) { return static_cast<float>(BFloat16(value)); }
float after_fp16(float value) { return static_cast<float>(Float16(value)); }

// Every finite value of 16 bits returns to itself, and the value halfway to the next
// rounds to the one with an even last bit; a hair above halfway rounds up.
template <class T>
void expect_ties_to_even(std::uint16_t largest) {
  for (std::uint32_t bits = 0; bits < largest; ++bits) {
    T low, high;
    low.bits = static_cast<std::uint16_t>(bits);
    high.bits = static_cast<std::uint16_t>(bits + 1);
    const float a = static_cast<float>(low), b = static_cast<float>(high);
    ASSERT_EQ(T(a).bits, low.bits);
    const float middle = a + (b - a) / 2;  // exact: float has more bits than T
    ASSERT_EQ(T(middle).bits, bits % 2 == 0 ? low.bits : high.bits) << a;
    ASSERT_EQ(T(-middle).bits, 0x8000u | (bits % 2 == 0 ? low.bits : high.bits)) << a;
    ASSERT_EQ(T(std::nextafter(middle, b)).bits, high.bits) << a;
    ASSERT_EQ(T(std::nextafter(middle, a)).bits, low.bits) << a;
  }
}

TEST(BFloat16, RoundsToNearestTiesToEven) { expect_ties_to_even<BFloat16>(0x7f7f); }
TEST(Float16, RoundsToNearestTiesToEven) { expect_ties_to_even<Float16>(0x7bff); }

TEST(BFloat16, KeepsInfinitiesNansAndSigns) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(after_bf16(infinity), infinity);
  EXPECT_EQ(after_bf16(-infinity), -infinity);
  EXPECT_EQ(after_bf16(std::numeric_limits<float>::max()), infinity);
  EXPECT_TRUE(std::signbit(after_bf16(-0.0f)));
  EXPECT_TRUE(std::isnan(after_bf16(std::numeric_limits<float>::quiet_NaN())));
  // A NaN whose payload lies in the lower half only must not turn into infinity.
  EXPECT_TRUE(std::isnan(after_bf16(std::bit_cast<float>(0x7f800001u))));
  EXPECT_TRUE(std::isnan(after_bf16(std::bit_cast<float>(0xffffffffu))));
}

TEST(Float16, OverflowsToInfinityAndKeepsNans) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(after_fp16(65504.0f), 65504.0f);
  EXPECT_EQ(after_fp16(65519.0f), 65504.0f);
  EXPECT_EQ(after_fp16(65520.0f), infinity);
  EXPECT_EQ(after_fp16(-infinity), -infinity);
  EXPECT_TRUE(std::signbit(after_fp16(-1e-30f)));
  EXPECT_TRUE(std::isnan(after_fp16(std::bit_cast<float>(0x7f800001u))));
}

TEST(DType, SizesNamesAndDispatch) {
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(name_of(DType::f16), "fp16");
  EXPECT_EQ(accumulator_of(DType::f64), DType::f64);
  EXPECT_EQ(accumulator_of(DType::bf16), DType::f32);
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    EXPECT_EQ(visit_floating(type, []<class T>(T) { return dtype_of<T>; }), type);
    EXPECT_EQ(visit_floating(type, []<class T>(T) { return sizeof(T); }), size_of(type));
  }
  EXPECT_THROW(visit_floating(DType::i32, [](auto) {}), Error);
}

}  // namespace
}  // namespace trireme
