// Causal convolution against plain loops, with documents, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/causal_conv.hpp"

#include <utility>

#include "kernels/reference/delta_rule.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

class CausalConv : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, CausalConv, every_type, type_name);

// Sums of at most 8 taps, of 3 T rows for the weight: k eps sqrt(terms) of their size, k
// = 32.
void expect_close(const Vector& made, const Vector& expected, DType dtype,
                  std::int64_t terms, const char* what) {
  const double sums = 32 * roundoff(accumulator_of(dtype)) *
                      std::sqrt(static_cast<double>(terms)) * (1 + largest(expected));
  ASSERT_EQ(made.size(), expected.size()) << what;
  for (std::size_t i = 0; i < made.size(); ++i)
    ASSERT_NEAR(made[i], expected[i], storing(dtype, expected[i]) + sums)
        << what << " " << i;
}

void expect_right(DType dtype, std::int64_t B, std::int64_t S, std::int64_t C,
                  std::int64_t W, const std::vector<int>& begins) {
  SCOPED_TRACE(testing::Message() << "B " << B << " S " << S << " C " << C << " W " << W
                                  << " documents " << begins.size());
  Stream stream(test_device());
  const std::int64_t T = B * S;
  std::vector<int> starts;
  for (std::int64_t row = 0; row < T && !begins.empty(); ++row) {
    int start = 0;
    for (const int begin : begins)
      if (begin <= static_cast<int>(row % S)) start = begin;
    starts.push_back(start);
  }
  const Buffer starts_T(test_device(), DType::i32, {T}, MemoryClass::data, "starts");
  kernels::ConvShape shape{B, S};
  if (!starts.empty()) {
    copy_bytes(stream, TensorView(starts.data(), DType::i32, {T}), starts_T.view());
    shape.starts_T = starts_T.view();
  }
  const Tensor x = Tensor::normal(dtype, {T, C}, 1, 3),
               dy = Tensor::normal(dtype, {T, C}, 2, 3),
               weight = Tensor::normal(dtype, {C, W}, 3);
  const Tensor y(dtype, {T, C}, 2), dx(dtype, {T, C}, 2);
  const Tensor dweight(accumulator_of(dtype), {C, W});
  kernels::causal_conv(stream, shape, x, weight, y);
  Vector expected =
      kernels::reference::causal_conv(S, starts, x.values(), weight.values(), W);
  for (double& u : expected) u /= 1 + std::exp(-u);
  expect_close(y.values(), expected, dtype, W, "y");
  const auto d = kernels::reference::causal_conv_backward(
      S, starts, x.values(), weight.values(), W, dy.values());
  for (int time = 1; time <= 2; ++time) {
    kernels::causal_conv_backward(stream, shape, dy, x, weight, dx, dweight);
    expect_close(dx.values(), d.x, dtype, 3 * W, "dx");
    Vector sum = d.weight;
    for (double& w : sum) w *= time;  // added to
    expect_close(dweight.values(), sum, accumulator_of(dtype), 3 * T, "dweight");
  }
  EXPECT_TRUE(y.padding_is_intact() && dx.padding_is_intact());
}

TEST_P(CausalConv, IsASumOfTaps) {
  expect_right(GetParam(), 1, 1, 1, 4, {});
  expect_right(GetParam(), 2, 3, 5, 4, {});
  expect_right(GetParam(), 3, 20, 130, 4, {});
  expect_right(GetParam(), 2, 17, 3, 1, {});
  expect_right(GetParam(), 1, 40, 7, 8, {});
}

TEST_P(CausalConv, DocumentsBeginWithNothing) {
  expect_right(GetParam(), 2, 20, 5, 4, {0, 1, 2, 9, 12});
}

// Backward on a GPU cuts all rows into pieces of 128: with documents that begin at,
// before and behind a cut, sequences shorter than a piece and than the taps, and last
// pieces that are shorter than the taps.
TEST_P(CausalConv, PiecesMakeTheWhole) {
  expect_right(GetParam(), 2, 301, 3, 4, {});
  expect_right(GetParam(), 2, 301, 3, 4, {0, 1, 126, 127, 128, 129, 253, 258, 300});
  expect_right(GetParam(), 1, 300, 2, 8, {0, 120, 131, 252, 256});
  expect_right(GetParam(), 140, 1, 2, 4, {});
  expect_right(GetParam(), 90, 3, 2, 6, {});
  for (std::int64_t W = 1; W <= 8; ++W) {
    expect_right(GetParam(), 1, 128, 1, W, {});
    expect_right(GetParam(), 1, 130, 70, W, {});
  }
}

// So many rows that pieces are longer, of 129 rows.
TEST(LongConv, HasFewPieces) { expect_right(DType::f32, 2, 16950, 1, 4, {0, 16000}); }

TEST(LongConv, HasTheSameBitsEachTime) {
  Stream stream(test_device());
  const Tensor x = Tensor::normal(DType::f32, {1000, 3}, 1),
               dy = Tensor::normal(DType::f32, {1000, 3}, 2),
               weight = Tensor::normal(DType::f32, {3, 4}, 3);
  const auto backward = [&] {
    const Tensor dx(DType::f32, {1000, 3}), dweight(DType::f32, {3, 4}, Vector(12));
    kernels::causal_conv_backward(stream, {2, 500}, dy, x, weight, dx, dweight);
    return std::pair(dx.values(), dweight.values());
  };
  EXPECT_EQ(backward(), backward());
}

TEST(ConvChecks, NameWhatIsWrong) {
  Stream stream(test_device());
  const Tensor x(DType::f32, {4, 3}), weight(DType::f32, {3, 9}), y(DType::f32, {4, 3});
  EXPECT_THROW(kernels::causal_conv(stream, {2, 2}, x, weight, y), Error);
  const Tensor taps(DType::f32, {3, 4}), dtaps(DType::f32, {3, 4});
  for (const Tensor* input : {&x, &y})
    EXPECT_THROW(kernels::causal_conv_backward(stream, {2, 2}, y, x, taps, *input, dtaps),
                 Error);
}

}  // namespace
}  // namespace trireme::test
