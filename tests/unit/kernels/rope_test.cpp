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
    kernels::rope(stream, x, heads, positions, table, direction);
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
    kernels::rope(stream, x, 1, Indices(std::move(positions)), table, Direction::forward);
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
}

}  // namespace
}  // namespace trireme::test
