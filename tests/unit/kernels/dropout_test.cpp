// Dropout: the mask by its definition, on every cut of the tokens.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dropout.hpp"

#include <cmath>

#include "base/philox.hpp"
#include "kernels/elementwise.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

using kernels::DropoutKey;

class DropoutTest : public testing::TestWithParam<DType> {
 protected:
  Stream stream_{test_device()};
};
INSTANTIATE_TEST_SUITE_P(Types, DropoutTest, every_type, type_name);

// i32, on the device of the test.
Buffer integers(std::vector<std::int32_t> values) {
  const Shape shape = {static_cast<std::int64_t>(values.size())};
  Buffer buffer(test_device(), DType::i32, shape, MemoryClass::data, "test");
  Stream stream(test_device());
  copy_bytes(stream, TensorView(values.data(), DType::i32, shape), buffer.view());
  stream.synchronize();
  return buffer;
}

bool kept(const DropoutKey& key, double rate, std::int64_t row, std::int64_t column,
          std::int64_t columns) {
  const std::uint64_t draw =
      Random(key.seed, key.stream)
          .bits(static_cast<std::uint64_t>(row * ((columns + 1) / 2) + column / 2));
  const auto bits = static_cast<std::uint32_t>(column % 2 == 0 ? draw : draw >> 32);
  return static_cast<double>(bits) >= std::round(rate * 0x1p32);
}

// Positions in zig-zag order, as context ranks have them.
TEST_P(DropoutTest, IsAFunctionOfSequencePositionAndColumn) {
  constexpr std::int64_t B = 2, here = 4, S = 12, T = B * here;
  const std::vector<std::int32_t> order = {1, 2, 9, 10};
  for (const std::int64_t D : {1, 7, 64, 257})
    for (const std::int64_t padding : {0, 5})
      for (const std::int64_t first : {0, 3}) {
        const DropoutKey key{3, 99, 1000000007, first, here, S};
        const double rate = 0.3;
        std::vector<std::int32_t> values;
        for (std::int64_t t = first; t < T; ++t)
          values.push_back(order[static_cast<std::size_t>(t % here)]);
        const Buffer positions = integers(values);
        const Tensor x = Tensor::normal(GetParam(), {T - first, D}, 1, padding);
        const Tensor y(GetParam(), {T - first, D}, padding);
        Vector expected = x.values();
        const DType wide = accumulator_of(GetParam());
        const double scale = rounded(wide, Vector{1 / (1 - rate)})[0];
        for (std::int64_t t = first; t < T; ++t)
          for (std::int64_t j = 0; j < D; ++j) {
            const std::int64_t row = (key.first_sequence + t / here) * S +
                                     order[static_cast<std::size_t>(t % here)];
            expected[static_cast<std::size_t>((t - first) * D + j)] *=
                kept(key, rate, row, j, D) ? scale : 0.0;
          }
        kernels::dropout(stream_, key, rate, positions.view(), x, y);
        expect_close(GetParam(), y.values(), expected, 8 * roundoff(wide), "dropout");
        EXPECT_TRUE(y.padding_is_intact());
        kernels::dropout(stream_, key, rate, positions.view(), x, x);  // in place
        EXPECT_EQ(x.values(), y.values());
      }
}

// Cut at even and at odd columns, of which two share a draw.
TEST_P(DropoutTest, OfSomeColumnsIsThatOfTheWhole) {
  constexpr std::int64_t T = 5, D = 83;
  const Buffer positions = integers({0, 1, 2, 3, 4});
  const Tensor x(GetParam(), {T, D}, Vector(static_cast<std::size_t>(T * D), 1.0));
  const Tensor y(GetParam(), {T, D});
  DropoutKey key{3, 99, 7, 0, T, T};
  kernels::dropout(stream_, key, 0.4, positions.view(), x, y);
  const Vector whole = y.values();
  key.columns = D;
  for (const std::int64_t first : {1, 2, 7, 16})
    for (const std::int64_t columns : {1, 2, 24, 67}) {
      SCOPED_TRACE(testing::Message() << columns << " from " << first);
      key.first_column = first;
      // Dense rows and those of a wider tensor.
      for (const std::int64_t padding : {0, 8}) {
        const Tensor part(GetParam(), {T, columns},
                          Vector(static_cast<std::size_t>(T * columns), 1.0), padding);
        kernels::dropout(stream_, key, 0.4, positions.view(), part, part);
        const Vector made = part.values();
        for (std::int64_t t = 0; t < T; ++t)
          for (std::int64_t j = 0; j < columns; ++j)
            ASSERT_EQ(made[static_cast<std::size_t>(t * columns + j)],
                      whole[static_cast<std::size_t>(t * D + first + j)])
                << t << " " << j;
      }
    }
}

// The number of the first sequence may lie in memory, and is read each time.
TEST(Dropout, ReadsTheFirstSequenceFromMemory) {
  Stream stream(test_device());
  constexpr std::int64_t T = 6, D = 33;
  const Buffer positions = integers({0, 1, 2, 0, 1, 2});
  const Buffer number(test_device(), DType::f64, {1}, MemoryClass::data, "test");
  const Tensor x = Tensor::normal(DType::f32, {T, D}, 1);
  const auto dropped = [&](std::int64_t first, const TensorView& first_1) {
    const Tensor y(DType::f32, {T, D});
    DropoutKey key{3, 99, first, 0, 3, 3};
    key.first_sequence_1 = first_1;
    kernels::dropout(stream, key, 0.4, positions.view(), x, y);
    return y.values();
  };
  for (const std::int64_t first : {std::int64_t{7}, std::int64_t{1} << 40}) {
    kernels::fill(stream, number.view(), static_cast<double>(first));
    EXPECT_EQ(dropped(1, number.view()), dropped(first, {}));
    EXPECT_NE(dropped(1, number.view()), dropped(1, {}));
  }
}

// Of n numbers about rate n are dropped: within five standard deviations.
TEST(Dropout, DropsAsManyAsTheRateSays) {
  Stream stream(test_device());
  constexpr std::int64_t T = 100, D = 1000;
  const Buffer positions = integers(std::vector<std::int32_t>(T, 0));
  for (const double rate : {0.0, 0.1, 0.9}) {
    const Tensor x(DType::f32, {T, D}, Vector(static_cast<std::size_t>(T * D), 1.0));
    kernels::dropout(stream, {1, 2, 0, 0, 1, 1}, rate, positions.view(), x, x);
    double dropped = 0, sum = 0;
    for (const double value : x.values()) {
      dropped += value == 0 ? 1 : 0;
      sum += value;
    }
    const double n = T * D, deviation = std::sqrt(n * rate * (1 - rate));
    EXPECT_NEAR(dropped, n * rate, 5 * deviation) << rate;
    EXPECT_NEAR(sum, n, 5 * deviation / (1 - rate) + 1e-2) << rate;
  }
}

}  // namespace
}  // namespace trireme::test
