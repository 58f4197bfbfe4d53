// Rotary position embedding against the reference; adjoint and inverse.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope.hpp"

#include "kernels/reference/rope.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

constexpr double theta = 10000.0;

Indices some_positions(std::int64_t T) {
  std::vector<std::int32_t> positions;
  for (std::int32_t t = 0; t < T; ++t) positions.push_back(t * 7 % 61);
  return Indices(positions);
}

struct Rotation {
  Rotation(DType dtype, std::int64_t T, std::int64_t heads, std::int64_t K)
      : heads(heads),
        positions(some_positions(T)),
        table(accumulator_of(dtype), {61, K}) {
    kernels::rope_table(stream, theta, table);
  }
  void operator()(const TensorView& x, Direction direction) {
    kernels::rope(stream, x, {heads}, positions, table, direction);
  }
  Stream stream{test_device()};
  std::int64_t heads;
  Indices positions;
  Tensor table;
};

class RopeTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, RopeTest, every_type, type_name);

TEST_P(RopeTest, MatchesReference) {
  for (const std::int64_t T : {1, 3, 17, 127})
    for (const std::int64_t heads : {1, 3})
      for (const std::int64_t K : {2, 6, 64, 254})
        for (const std::int64_t padding : {0, 3, 8})
          for (const auto direction : {Direction::forward, Direction::backward}) {
            Rotation rotation(GetParam(), T, heads, K);
            Tensor x = Tensor::normal(GetParam(), {T, heads * K}, 1, padding);
            const auto expected = kernels::reference::rope(
                x.values(), static_cast<std::size_t>(heads), static_cast<std::size_t>(K),
                rotation.positions.values(), theta,
                direction == Direction::forward ? 1.0 : -1.0);
            // Two products and a sum of numbers below max |x|, and the table's rounding;
            // in f64 the angle itself, up to 60, is rounded.
            const double absolute = largest(x.values()) *
                                    roundoff(accumulator_of(GetParam())) *
                                    (GetParam() == DType::f64 ? 6 + 4 * 60 : 6);
            rotation(x, direction);
            expect_close(GetParam(), x.values(), expected, absolute,
                         format("T = {}, heads = {}, K = {}", T, heads, K));
            EXPECT_TRUE(x.padding_is_intact());
          }
}

// Some numbers of each head turn, the others stay to the bit; halves and neighbours.
TEST_P(RopeTest, TurnsAPartOfEachHead) {
  struct Part {
    std::int64_t K, first, width;
  };
  constexpr std::int64_t T = 17, heads = 3;
  for (const auto& [K, first, width] :
       {Part{6, 0, 2}, Part{64, 0, 16}, Part{64, 32, 32}, Part{40, 8, 32}, Part{9, 3, 4},
        Part{2, 0, 2}, Part{64, 0, 64}})
    for (const bool neighbours : {false, true})
      for (const std::int64_t padding : {0, 3, 8})
        for (const auto direction : {Direction::forward, Direction::backward}) {
          const kernels::RotaryHeads turning{heads, first, neighbours};
          Stream stream{test_device()};
          const Indices positions = some_positions(T);
          const Tensor table(accumulator_of(GetParam()), {61, width});
          kernels::rope_table(stream, theta, table);
          Tensor x = Tensor::normal(GetParam(), {T, heads * K}, 1, padding);
          const Vector before = x.values();
          const auto expected = kernels::reference::rope(
              before, turning, static_cast<std::size_t>(K),
              static_cast<std::size_t>(width), positions.values(), theta,
              direction == Direction::forward ? 1.0 : -1.0);
          const double absolute = largest(before) * roundoff(accumulator_of(GetParam())) *
                                  (GetParam() == DType::f64 ? 6 + 4 * 60 : 6);
          kernels::rope(stream, x, turning, positions, table, direction);
          const Vector after = x.values();
          expect_close(GetParam(), after, expected, absolute,
                       format("K = {}, [{}, {})", K, first, first + width));
          EXPECT_TRUE(x.padding_is_intact());
          for (std::size_t i = 0; i < after.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i) % K;
            if (at < first || at >= first + width) {
              EXPECT_EQ(after[i], before[i]) << i;
            }
          }
        }
}

// Any frequencies, also more than travel with one launch; longrope's by the length.
TEST(Rope, TablesAreOfTheFrequencies) {
  Stream stream(test_device());
  constexpr std::int64_t pairs = 131, positions = 5;
  const Tensor table(DType::f64, {positions, 2 * pairs});
  std::vector<double> frequencies;
  for (std::int64_t j = 0; j < pairs; ++j)
    frequencies.push_back(1.0 / static_cast<double>(j + 1));
  kernels::rope_angles(stream, frequencies, 1.5, table);
  const Vector values = table.values();
  for (std::size_t p = 0; p < positions; ++p)
    for (std::size_t j = 0; j < pairs; ++j) {
      const double angle = static_cast<double>(p) * frequencies[j];
      EXPECT_NEAR(values[p * 2 * pairs + j], 1.5 * std::cos(angle), 1e-14);
      EXPECT_NEAR(values[p * 2 * pairs + pairs + j], 1.5 * std::sin(angle), 1e-14);
    }
  kernels::RopeScaling scaling{kernels::RopeScalingKind::longrope};
  scaling.original = 4;
  scaling.short_divisors = {1, 2};
  scaling.long_divisors = {3, 4};
  const Tensor small(DType::f64, {2, 4});
  for (const std::int64_t length : {4, 5}) {
    kernels::rope_table(stream, 100.0, small, scaling, length);
    const double first = length == 4 ? 1.0 : 1.0 / 3, second = length == 4 ? 0.05 : 0.025;
    EXPECT_NEAR(small.values()[4], std::cos(first), 1e-15);
    EXPECT_NEAR(small.values()[5], std::cos(second), 1e-15);
  }
  scaling.long_divisors = {3};
  EXPECT_THROW(kernels::rope_table(stream, 100.0, small, scaling, 5), Error);
}

// Of dynamic scaling each length has its own base; within the original one it is theta.
TEST(Rope, LengthsMakeTheBase) {
  Stream stream(test_device());
  kernels::RopeScaling scaling{kernels::RopeScalingKind::dynamic};
  scaling.factor = 3;
  scaling.original = 4;
  constexpr std::int64_t positions = 9, half = 3;
  const auto expected = [&](std::int64_t length, std::int64_t p, std::int64_t pair) {
    const double grown =
        3.0 * static_cast<double>(std::max<std::int64_t>(length, 4)) / 4 - 2;
    const double base = 100.0 * std::pow(grown, 6.0 / 4.0);
    return static_cast<double>(p) * std::pow(base, -static_cast<double>(pair) / half);
  };
  const Tensor table(DType::f64, {positions, 2 * half}),
      ends(DType::f64, {positions, 2 * half});
  kernels::rope_table_of_ends(stream, 100.0, ends, scaling);
  for (const std::int64_t length : {3, 4, 5, 9}) {
    kernels::rope_table(stream, 100.0, table, scaling, length);
    for (std::int64_t p = 0; p < positions; ++p)
      for (std::int64_t pair = 0; pair < half; ++pair) {
        const auto at = static_cast<std::size_t>(p * 2 * half + pair);
        EXPECT_NEAR(table.values()[at], std::cos(expected(length, p, pair)), 1e-13);
        EXPECT_NEAR(table.values()[at + half], std::sin(expected(length, p, pair)),
                    1e-13);
        EXPECT_NEAR(ends.values()[at], std::cos(expected(p + 1, p, pair)), 1e-13);
        EXPECT_NEAR(ends.values()[at + half], std::sin(expected(p + 1, p, pair)), 1e-13);
      }
  }
}

TEST(Rope, BackwardIsAdjointAndInverse) {
  Rotation rotation(DType::f64, 17, 3, 6);
  const Tensor x = Tensor::normal(DType::f64, {17, 18}, 1);
  const Tensor u = Tensor::normal(DType::f64, {17, 18}, 2);
  Tensor rotated(DType::f64, {17, 18}, x.values()),
      back(DType::f64, {17, 18}, u.values());
  rotation(rotated, Direction::forward);
  rotation(back, Direction::backward);
  const double size =
      std::sqrt(dot(x.values(), x.values()) * dot(u.values(), u.values()));
  EXPECT_NEAR(dot(rotated.values(), u.values()), dot(x.values(), back.values()),
              16 * roundoff(DType::f64) * size);
  EXPECT_NE(rotated.values(), x.values());
  rotation(rotated, Direction::backward);
  expect_close(DType::f64, rotated.values(), x.values(),
               16 * roundoff(DType::f64) * largest(x.values()), "inverse");
}

TEST(Rope, PositionZeroLeavesRowsAlone) {
  Rotation rotation(DType::f32, 1, 2, 64);
  Tensor x = Tensor::normal(DType::f32, {1, 128}, 1);
  const Vector before = x.values();
  rotation(x, Direction::forward);
  EXPECT_EQ(x.values(), before);
}

TEST(Rope, RefusesPositionsOutsideTheTableAndOddWidths) {
  Stream stream(test_device());
  Tensor x(DType::f32, {2, 8}), table(DType::f32, {4, 8}), odd(DType::f32, {4, 7});
  const auto rotate = [&](std::vector<std::int32_t> positions) {
    kernels::rope(stream, x, {1}, Indices(std::move(positions)), table,
                  Direction::forward);
  };
  if (test_device().is_host()) {
    EXPECT_THROW(rotate({0, 4}), Error);
    EXPECT_THROW(rotate({-1, 0}), Error);
  } else {
    for (const std::int32_t wrong : {4, -1}) {
      x.set(Vector(16, 1.0));
      rotate({0, wrong});
      const Vector y = x.values();
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i >= 8) << i;
    }
  }
  EXPECT_THROW(kernels::rope_table(stream, theta, odd), Error);
  const Indices zeros(std::vector<std::int32_t>{0, 0});
  for (const kernels::RotaryHeads wrong :
       {kernels::RotaryHeads{1, 1, false}, kernels::RotaryHeads{3, 0, false},
        kernels::RotaryHeads{2, 0, false}})
    EXPECT_THROW(kernels::rope(stream, x, wrong, zeros, table, Direction::forward), Error)
        << wrong.heads;
}

}  // namespace
}  // namespace trireme::test
