// Stochastic rounding: only the two neighbours, with the right probabilities.
// SPDX-License-Identifier: Apache-2.0
// An element of a tensor gets the same wherever it is; also: state kept as square roots.
#include "kernels/rounding.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "base/philox.hpp"
#include "base/stochastic_rounding.hpp"
#include "kernels/fp8.hpp"
#include "kernels/reference/rounding.hpp"
#include "support/device.hpp"

namespace trireme::kernels {
namespace {

constexpr DType types[] = {DType::bf16, DType::f16, DType::e4m3, DType::e5m2};
constexpr float infinity = std::numeric_limits<float>::infinity();

// Ordinary, subnormal in the type, next to powers of two, and below the least number.
std::vector<float> samples(DType type) {
  std::vector<float> out;
  const double least = reference::spacing(0, type);
  for (const double x : {1.0, 1.0 + 0x1p-20, 1.3, 1.99999, 3.75, 100.1})
    out.push_back(static_cast<float>(x));
  for (const double x : {0.01, 0.3, 0.5, 0.9999, 1.5, 2.75, 3.999, 7.01})
    out.push_back(static_cast<float>(x * least));
  return out;
}

TEST(StochasticRounding, GivesNeighboursWithTheRightChances) {
  constexpr int draws = 20000;
  for (const DType type : types) {
    const Random random(3, 4);
    std::uint64_t index = 0;
    for (const float size : samples(type)) {
      for (const float x : {size, -size}) {
        SCOPED_TRACE(::testing::Message() << name_of(type) << " " << x);
        const auto [below, above, chance] = reference::neighbours(double{x}, type);
        int up = 0;
        for (int i = 0; i < draws; ++i) {
          const float y =
              round_stochastic(x, low_precision_format(type),
                               static_cast<std::uint32_t>(random.bits(index++)));
          const double magnitude = std::abs(double{y});
          ASSERT_TRUE(magnitude == below || magnitude == above) << y;
          ASSERT_EQ(std::signbit(y), std::signbit(x));
          up += magnitude > below ? 1 : 0;
        }
        const double deviation = std::sqrt(chance * (1 - chance) / draws);
        EXPECT_NEAR(static_cast<double>(up) / draws, chance, 5 * deviation);
      }
    }
  }
}

TEST(StochasticRounding, LeavesNumbersOfTheType) {
  for (const std::uint32_t random : {0u, 0x80000000u, 0xffffffffu}) {
    for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
      const DType type = format == Fp8Format::e4m3 ? DType::e4m3 : DType::e5m2;
      for (int code = 0; code < 256; ++code) {
        const float x = fp8_decode(static_cast<std::uint8_t>(code), format);
        if (std::isnan(x)) continue;
        EXPECT_EQ(round_stochastic(x, low_precision_format(type), random), x);
      }
    }
    for (std::uint32_t bits = 0; bits < 0x10000; bits += 7) {
      const float x = std::bit_cast<float>(bits << 16);
      if (!std::isnan(x)) {
        EXPECT_EQ(round_stochastic(x, low_precision_format(DType::bf16), random), x);
      }
      const float half =
          static_cast<float>(std::bit_cast<Float16>(static_cast<std::uint16_t>(bits)));
      if (!std::isnan(half)) {
        EXPECT_EQ(round_stochastic(half, low_precision_format(DType::f16), random), half);
      }
    }
  }
}

// The type decides about what it cannot hold, as with any number.
TEST(StochasticRounding, PassesOnWhatIsBeyondTheLargest) {
  for (const DType type : types) {
    const LowPrecisionFormat format = low_precision_format(type);
    for (const std::uint32_t random : {0u, 0xffffffffu}) {
      const float beyond = std::nextafter(format.largest, infinity);
      for (const float x : {format.largest, beyond, infinity}) {
        EXPECT_EQ(round_stochastic(x, format, random), x);
        EXPECT_EQ(round_stochastic(-x, format, random), -x);
      }
      EXPECT_TRUE(std::isnan(round_stochastic(std::nanf(""), format, random)));
      EXPECT_LE(round_stochastic(std::nextafter(format.largest, 0.0f), format, random),
                format.largest);
    }
  }
  EXPECT_EQ(fp8_encode(round_stochastic(1e9f, low_precision_format(DType::e4m3), 0),
                       Fp8Format::e4m3),
            0x7e);
}

std::vector<float> rounded(const std::vector<float>& values, const TensorRun& run,
                           DType type, float scale, const RoundingKey& key) {
  Stream stream(test::test_device());
  const Shape shape = {static_cast<std::int64_t>(values.size())};
  const Buffer x(stream.device(), DType::f32, shape, MemoryClass::workspace, "x");
  std::vector<float> out = values;
  const TensorView host(out.data(), DType::f32, shape);
  copy_bytes(stream, host, x.view());
  round_stochastic(stream, x.view(), run, type, scale, key);
  copy_bytes(stream, x.view(), host);
  stream.synchronize();
  return out;
}

// A box of the tensor, and a run of a box, have the whole's bits; a host has the
// device's.
TEST(StochasticRounding, BelongsToTheElement) {
  constexpr std::int64_t rows = 9, columns = 40;
  std::vector<float> whole(rows * columns);
  for (std::size_t i = 0; i < whole.size(); ++i)
    whole[i] = 0.02f * std::sin(0.3f * static_cast<float>(i));
  for (const DType type : types) {
    const RoundingKey key{5, 6, 7};
    const float scale = 0x1p-12f;
    const auto all = rounded(whole, {0, columns, 0, 0, columns}, type, scale, key);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const auto bits = Random(5, 6, 7).bits(i);
      const float want =
          scale * round_stochastic(whole[i] / scale, low_precision_format(type),
                                   static_cast<std::uint32_t>(bits));
      ASSERT_EQ(std::memcmp(&all[i], &want, sizeof want), 0);
    }
    // Rows 2 to 6, columns 11 to 27, from the fifth element on.
    std::vector<float> part, want;
    for (std::int64_t i = 5; i < 5 * 17; ++i) {
      const auto at = static_cast<std::size_t>((2 + i / 17) * columns + 11 + i % 17);
      part.push_back(whole[at]);
      want.push_back(all[at]);
    }
    EXPECT_EQ(rounded(part, {5, 17, 2, 11, columns}, type, scale, key), want);
    for (const RoundingKey& other :
         {RoundingKey{4, 6, 7}, RoundingKey{5, 5, 7}, RoundingKey{5, 6, 8}})
      EXPECT_NE(rounded(whole, {0, columns, 0, 0, columns}, type, scale, other), all);
  }
}

// The counts of values that are kept divided by `scale`, or by a scale for each square.
std::vector<double> losses(const std::vector<float>& values, DType type, float scale,
                           const TensorRun& run, const std::vector<float>& squares) {
  Stream stream(test::test_device());
  const auto there = [&](const std::vector<float>& x, const char* name) {
    Buffer buffer(stream.device(), DType::f32, {static_cast<std::int64_t>(x.size())},
                  MemoryClass::workspace, name);
    copy_bytes(
        stream,
        TensorView(const_cast<float*>(x.data()), DType::f32, buffer.view().shape()),
        buffer.view());
    return buffer;
  };
  const Buffer x = there(values, "x");
  const Buffer scales = squares.empty() ? Buffer() : there(squares, "scales");
  std::vector<double> counts = {1, 2};  // added to
  const Buffer sums(stream.device(), DType::f64, {2}, MemoryClass::workspace, "counts");
  const TensorView host(counts.data(), DType::f64, {2});
  copy_bytes(stream, host, sums.view());
  count_rounding_losses(stream, x.view(), rounding_limits(type, scale), run,
                        scales.view(), sums.view());
  copy_bytes(stream, sums.view(), host);
  stream.synchronize();
  return counts;
}

// On both sides of the ties, from the definitions of the types.
TEST(RoundingLosses, AreWhatTheTypesSay) {
  struct Edge {
    DType type;
    float beyond, least;
  };
  for (const Edge& edge :
       {Edge{DType::e4m3, 464.0f, 0x1p-10f}, Edge{DType::e5m2, 61440.0f, 0x1p-17f},
        Edge{DType::f16, 65520.0f, 0x1p-25f},
        Edge{DType::bf16, 0x1.ffp127f, 0x1p-134f}}) {
    SCOPED_TRACE(name_of(edge.type));
    const float scale = edge.type == DType::bf16 ? 1.0f : 0x1p-7f;
    std::vector<float> values = {0.0f, -0.0f, 1.0f * scale, std::nanf("")};
    for (const float sign : {1.0f, -1.0f}) {
      values.push_back(sign * edge.beyond * scale);                            // kept
      values.push_back(sign * std::nextafter(edge.beyond * scale, infinity));  // lost
      values.push_back(sign * infinity);                                       // lost
      values.push_back(sign * edge.least * scale);                             // lost
      values.push_back(sign * std::nextafter(edge.least * scale, infinity));   // kept
      values.push_back(sign * std::numeric_limits<float>::denorm_min());       // lost
    }
    EXPECT_EQ(losses(values, edge.type, scale, {}, {}),
              (std::vector<double>{1 + 4, 2 + 4}));
  }
}

// A row of 300 columns lies in three squares.
TEST(RoundingLosses, LookAtTheSquaresScale) {
  std::vector<float> values(2 * 300, 1.0f);
  values[5] = values[305] = 0x1p-9f;    // kept in the first square
  values[130] = values[430] = 0x1p-9f;  // lost in the second
  values[290] = 1000.0f;                // kept in the third
  values[590] = 1.0e6f;                 // lost there
  EXPECT_EQ(losses(values, DType::e4m3, 1, {0, 300, 0, 0, 300}, {1.0f, 2.0f, 8.0f}),
            (std::vector<double>{1 + 1, 2 + 2}));
}

TEST(SquareRoots, StayAboveTheLeast) {
  Stream stream(test::test_device());
  std::vector<float> values = {0.0f, 1e-30f, 0.25f, 9.0f};
  const Buffer x(stream.device(), DType::f32, {4}, MemoryClass::workspace, "x");
  const TensorView host(values.data(), DType::f32, {4});
  copy_bytes(stream, host, x.view());
  square_root(stream, x.view(), 0x1p-9f);
  copy_bytes(stream, x.view(), host);
  stream.synchronize();
  EXPECT_EQ(values, (std::vector<float>{0.0f, 0x1p-9f, 0.5f, 3.0f}));
  square(stream, x.view());
  copy_bytes(stream, x.view(), host);
  stream.synchronize();
  EXPECT_EQ(values, (std::vector<float>{0.0f, 0x1p-18f, 0.25f, 9.0f}));
}

}  // namespace
}  // namespace trireme::kernels
