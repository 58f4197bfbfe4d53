// Columns of heads, copied and summed, against loops.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/heads.hpp"

#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

class HeadsTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, HeadsTest, every_type, type_name);

struct Sizes {
  std::int64_t heads, from_width, from_first, to_width, to_first, width;
};
constexpr Sizes all_sizes[] = {{1, 5, 2, 4, 1, 3},
                               {3, 7, 0, 9, 2, 7},
                               {4, 32, 16, 24, 8, 16},
                               {2, 64, 0, 64, 0, 64}};

std::size_t at(std::int64_t t, std::int64_t row, std::int64_t column) {
  return static_cast<std::size_t>(t * row + column);
}

TEST_P(HeadsTest, ColumnsAreCopied) {
  Stream stream(test_device());
  for (const Sizes& s : all_sizes)
    for (const std::int64_t from_heads : {std::int64_t{1}, s.heads})
      for (const std::int64_t padding : {0, 3}) {
        const std::int64_t T = 5, A = from_heads * s.from_width, B = s.heads * s.to_width;
        const Tensor from = Tensor::normal(GetParam(), {T, A}, 1, padding);
        const Tensor to = Tensor::normal(GetParam(), {T, B}, 2, padding);
        Vector expected = to.values();
        const Vector values = from.values();
        for (std::int64_t t = 0; t < T; ++t)
          for (std::int64_t h = 0; h < s.heads; ++h)
            for (std::int64_t i = 0; i < s.width; ++i)
              expected[at(t, B, h * s.to_width + s.to_first + i)] =
                  values[at(t, A, h % from_heads * s.from_width + s.from_first + i)];
        kernels::copy_heads(stream, {from, from_heads, s.from_first},
                            {to, s.heads, s.to_first}, s.width);
        EXPECT_EQ(to.values(), expected);
        EXPECT_TRUE(to.padding_is_intact());
      }
}

TEST_P(HeadsTest, HeadsAreSummed) {
  Stream stream(test_device());
  for (const Sizes& s : all_sizes) {
    const std::int64_t T = 5, A = s.heads * s.from_width, B = s.to_width;
    const Tensor from = Tensor::normal(GetParam(), {T, A}, 1, 3);
    const Tensor to = Tensor::normal(GetParam(), {T, B}, 2, 5);
    Vector expected = to.values();
    const Vector values = from.values();
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t i = 0; i < s.width; ++i) {
        double sum = 0;
        for (std::int64_t h = 0; h < s.heads; ++h)
          sum += values[at(t, A, h * s.from_width + s.from_first + i)];
        expected[at(t, B, s.to_first + i)] = sum;
      }
    kernels::sum_heads(stream, {from, s.heads, s.from_first}, {to, 1, s.to_first},
                       s.width);
    // Sums of at most 4 numbers below 5.
    expect_close(GetParam(), to.values(), expected,
                 4 * 20 * roundoff(accumulator_of(GetParam())), "sum");
    EXPECT_TRUE(to.padding_is_intact());
  }
}

TEST(Heads, ColumnsBeyondAHeadAreRefused) {
  Stream stream(test_device());
  const Tensor from(DType::f32, {2, 12}), to(DType::f32, {2, 6});
  EXPECT_THROW(kernels::copy_heads(stream, {from, 3, 2}, {to, 3, 0}, 3), Error);
  EXPECT_THROW(kernels::copy_heads(stream, {from, 3, 0}, {to, 2, 0}, 2), Error);
  EXPECT_THROW(kernels::sum_heads(stream, {from, 3, 0}, {to, 3, 0}, 2), Error);
  EXPECT_THROW(kernels::sum_heads(stream, {from, 5, 0}, {to, 1, 0}, 2), Error);
}

}  // namespace
}  // namespace trireme::test
