// Adds, copies, casts, fills, column sums and reductions.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.hpp"

#include <limits>

#include "kernels/reference/elementwise.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

constexpr std::int64_t sizes[] = {1, 3, 8, 17, 64, 127, 257, 1025, 40000};
constexpr DType types[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

using kernels::reference::rounded;
double rounded(DType dtype, double x) { return rounded(dtype, Vector{x})[0]; }

class ElementwiseTest : public testing::TestWithParam<DType> {
 protected:
  Stream stream_{test_device()};
};
INSTANTIATE_TEST_SUITE_P(Types, ElementwiseTest, every_type, type_name);

// One addition is exact in double, rounded to the accumulator, then to the type: the
// expected bits are known.
TEST_P(ElementwiseTest, AddIsExactToTheBitAlsoInPlace) {
  const DType sums = accumulator_of(GetParam());
  for (const std::int64_t n : sizes) {
    const Tensor a = Tensor::normal(GetParam(), {n}, 1);
    const Tensor b = Tensor::normal(GetParam(), {n}, 2), y(GetParam(), {n});
    Vector expected = a.values();
    const Vector other = b.values();
    expected = rounded(GetParam(), rounded(sums, added(expected, other)));
    kernels::add(stream_, a, b, y);
    EXPECT_EQ(y.values(), expected) << n;
    kernels::add(stream_, a, b, a);
    EXPECT_EQ(a.values(), expected) << n;
    kernels::accumulate(stream_, b, y);
    expected = rounded(GetParam(), rounded(sums, added(expected, other)));
    EXPECT_EQ(y.values(), expected) << n;
  }
}

TEST_P(ElementwiseTest, AddBias) {
  for (const std::int64_t D : {1, 8, 17, 257, 1032})
    for (const std::int64_t padding : {0, 5, 8})
      for (const bool with_bias : {false, true}) {
        const Tensor a = Tensor::normal(GetParam(), {5, D}, 1, padding);
        const Tensor b = Tensor::normal(GetParam(), {5, D}, 2, padding);
        const Tensor bias = Tensor::normal(GetParam(), {D}, 3);
        Vector expected = a.values();
        const Vector b_values = b.values(), bias_values = bias.values();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] += b_values[i];
          if (with_bias) expected[i] += bias_values[i % bias_values.size()];
        }
        kernels::add_bias(stream_, a, b, with_bias ? bias.view() : TensorView(), a);
        // Two additions of numbers below 16.
        expect_close(GetParam(), a.values(), expected,
                     2 * 16 * roundoff(accumulator_of(GetParam())), "add_bias");
        EXPECT_TRUE(a.padding_is_intact());
      }
}

// One addition is exact in double, rounded to the accumulator, then to the type.
TEST_P(ElementwiseTest, AddToRows) {
  for (const std::int64_t T : {0, 1, 5})
    for (const std::int64_t D : {1, 8, 17, 257, 1032})
      for (const std::int64_t padding : {0, 5, 8}) {
        const Tensor x = Tensor::normal(GetParam(), {T, D}, 1, padding);
        const Tensor bias = Tensor::normal(GetParam(), {D}, 3);
        Vector expected = x.values();
        const Vector each = bias.values();
        for (std::size_t i = 0; i < expected.size(); ++i)
          expected[i] += each[i % each.size()];
        kernels::add_to_rows(stream_, bias, x);
        EXPECT_EQ(x.values(),
                  rounded(GetParam(), rounded(accumulator_of(GetParam()), expected)))
            << D;
        EXPECT_TRUE(x.padding_is_intact());
      }
}

TEST_P(ElementwiseTest, CopyConvertsToEveryType) {
  for (const DType to : types)
    for (const std::int64_t n : {1, 8, 17, 257, 1000, 9000})
      for (const std::int64_t padding : {0, 5, 8}) {
        const Tensor x = Tensor::normal(GetParam(), {3, n}, 1, padding);
        const Tensor y(to, {3, n}, padding);
        kernels::copy(stream_, x, y);
        EXPECT_EQ(y.values(), rounded(to, x.values())) << name_of(to) << " " << n;
        EXPECT_TRUE(y.padding_is_intact());
      }
}

TEST_P(ElementwiseTest, AccumulateAcrossTypes) {
  for (const DType to : types) {
    const Tensor x = Tensor::normal(GetParam(), {257}, 1);
    const Tensor y = Tensor::normal(to, {257}, 2);
    const Vector expected = added(y.values(), rounded(accumulator_of(to), x.values()));
    kernels::accumulate(stream_, x, y);
    expect_close(to, y.values(), expected, 8 * roundoff(accumulator_of(to)), "y");
  }
}

// A flat tensor that starts and ends at any element, and its neighbours.
TEST_P(ElementwiseTest, PiecesOfAFlatTensorAreDoneAlone) {
  const std::int64_t n = 300;
  const Tensor ones(GetParam(), {n}, Vector(static_cast<std::size_t>(n), 1.0));
  for (const std::int64_t begin : {1, 3, 8, 16, 21})
    for (const std::int64_t count : {0, 1, 7, 8, 33, 256}) {
      const Tensor x = Tensor::normal(GetParam(), {n}, 1), y(GetParam(), {n});
      const auto piece = [&](const Tensor& of) { return of.view().rows(begin, count); };
      Vector expected(static_cast<std::size_t>(n), 0.0);
      const Vector before = x.values();
      std::copy_n(before.begin() + begin, count, expected.begin() + begin);
      kernels::copy(stream_, piece(x), piece(y));
      EXPECT_EQ(y.values(), expected) << begin << " " << count;
      kernels::scale(stream_, piece(y), 0.5);
      kernels::add(stream_, piece(y), piece(y), piece(y));
      EXPECT_EQ(y.values(), expected) << begin << " " << count;
      kernels::fill(stream_, piece(y), 3.0);
      kernels::accumulate(stream_, piece(ones), piece(y));
      std::fill_n(expected.begin() + begin, count, 4.0);
      EXPECT_EQ(y.values(), expected) << begin << " " << count;
    }
}

// cap tanh(x / cap): the quotient errs by an ulp of the argument, tanh by 7 of its value,
// the product by one; |y| is at most the cap. The gradient's factor is at most 1 and made
// of values whose squares err by 3 roundings, beside the gradient's own.
TEST_P(ElementwiseTest, SoftCapAndItsGradient) {
  const double cap = 1.5, unit = roundoff(accumulator_of(GetParam()));
  for (const DType gradients : {GetParam(), DType::bf16})
    for (const std::int64_t n : {1, 8, 17, 257, 1000})
      for (const std::int64_t padding : {0, 5, 8}) {
        const Tensor x = Tensor::normal(GetParam(), {3, n}, 1, padding);
        Vector expected = x.values();
        for (double& v : expected) v = cap * std::tanh(v / cap);
        kernels::soft_cap(stream_, x, cap);
        expect_close(GetParam(), x.values(), expected, 10 * cap * unit, "soft_cap");
        EXPECT_TRUE(x.padding_is_intact());
        const Tensor d = Tensor::normal(gradients, {3, n}, 2, padding);
        Vector change = d.values();
        const Vector y = x.values();
        for (std::size_t i = 0; i < change.size(); ++i)
          change[i] *= 1 - (y[i] / cap) * (y[i] / cap);
        kernels::soft_cap_backward(stream_, x, cap, d);
        expect_close(gradients, d.values(), change,
                     8 * 5 * roundoff(accumulator_of(gradients)), "soft_cap_backward");
        EXPECT_TRUE(d.padding_is_intact());
      }
}

TEST_P(ElementwiseTest, FillAndScale) {
  for (const std::int64_t n : sizes) {
    const Tensor x(GetParam(), {n});
    kernels::fill(stream_, x, 0.7);
    EXPECT_EQ(x.values(), Vector(static_cast<std::size_t>(n), rounded(GetParam(), 0.7)));
    kernels::scale(stream_, x, -0.5);  // exact
    EXPECT_EQ(x.values(),
              Vector(static_cast<std::size_t>(n), -0.5 * rounded(GetParam(), 0.7)));
  }
}

TEST_P(ElementwiseTest, ColumnSumsAreAdded) {
  const DType sums_type = accumulator_of(GetParam());
  for (const std::int64_t T : {0, 1, 3, 17, 257, 1500})
    for (const std::int64_t N : {1, 8, 17, 127, 1000})
      for (const std::int64_t padding : {0, 5}) {
        const Tensor x = Tensor::normal(GetParam(), {T, N}, 1, padding);
        const Tensor sums(sums_type, {N});
        const Vector expected =
            kernels::reference::column_sums(x.values(), static_cast<std::size_t>(N));
        kernels::add_column_sums(stream_, x, sums);
        // A random walk of T roundings of partial sums of about sqrt(T).
        expect_close(sums_type, sums.values(), expected,
                     8 * roundoff(sums_type) * static_cast<double>(T), "sums");
        const Vector once = sums.values();
        kernels::add_column_sums(stream_, x, sums);
        EXPECT_EQ(sums.values(), added(once, once));
      }
}

TEST_P(ElementwiseTest, SumAndMaxOfParts) {
  for (const std::int64_t n : {1, 17, 257, 5000}) {
    const std::int64_t P = 5;
    const Tensor parts = Tensor::normal(GetParam(), {P, n}, 1), out(GetParam(), {n});
    const Vector in = parts.values();
    Vector sum(static_cast<std::size_t>(n)), max(in.begin(), in.begin() + n);
    for (std::size_t i = 0; i < in.size(); ++i) {
      sum[i % sum.size()] += in[i];
      max[i % max.size()] = std::max(max[i % max.size()], in[i]);
    }
    kernels::max_parts(stream_, parts, out);
    EXPECT_EQ(out.values(), max);
    kernels::sum_parts(stream_, parts, out);
    // Rounded to the type once: P additions of numbers below 32 in the accumulator.
    expect_close(GetParam(), out.values(), sum,
                 static_cast<double>(P) * 32 * roundoff(accumulator_of(GetParam())),
                 "sum");
    const Vector apart = out.values();
    const TensorView row = parts.view().rows(2, 1).reshape({n});
    kernels::sum_parts(stream_, parts, row);
    const Vector after = parts.values();
    EXPECT_TRUE(std::equal(apart.begin(), apart.end(), after.begin() + 2 * n));
  }
}

TEST(Elementwise, SumPartsKeepsTheAccumulatorBetweenParts) {
  Stream stream(test_device());
  // 256 + 1 + 1 + 1 in bf16 after every addition would stay 256.
  const Tensor parts(DType::bf16, {4, 1}, Vector{256, 1, 1, 1}), out(DType::bf16, {1});
  kernels::sum_parts(stream, parts, out);
  EXPECT_EQ(out.values()[0], 260.0);  // 259 rounded once
}

TEST(Elementwise, MaxPartsShowsNotANumber) {
  Stream stream(test_device());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& in : {Vector{nan, 1}, Vector{1, nan}}) {
    const Tensor out(DType::f32, {1});
    kernels::max_parts(stream, Tensor(DType::f32, {2, 1}, in), out);
    EXPECT_TRUE(std::isnan(out.values()[0]));
  }
}

TEST_P(ElementwiseTest, SumOfSquares) {
  for (const std::int64_t n : {0, 1, 3, 5, 17, 257, 40000, 700001}) {
    const Tensor x = Tensor::normal(GetParam(), {n}, 1);
    const double expected = kernels::reference::sum_of_squares(x.values());
    EXPECT_NEAR(kernels::sum_of_squares(stream_, x), expected,
                8 * 0x1p-53 * std::sqrt(static_cast<double>(n) + 1) * expected);
  }
}

TEST_P(ElementwiseTest, SumOfSquaresIsAddedToTheBit) {
  for (const std::int64_t n : {0, 1, 17, 40000}) {
    const Tensor x = Tensor::normal(GetParam(), {n + 1}, 1);
    for (const std::int64_t begin : {0, 1}) {
      const TensorView piece = x.view().rows(begin, n);
      const Tensor sum(DType::f64, {1}, Vector{0.7});
      const double squares = kernels::sum_of_squares(stream_, piece);
      kernels::add_sum_of_squares(stream_, piece, sum);
      EXPECT_EQ(sum.values()[0], 0.7 + squares) << n;
      kernels::add_sum_of_squares(stream_, piece, sum);
      EXPECT_EQ(sum.values()[0], (0.7 + squares) + squares) << n;
    }
  }
}

// More tensors than a launch of a GPU takes, some of them empty or not aligned.
TEST_P(ElementwiseTest, SumsOfSquaresOfManyTensors) {
  const Tensor x = Tensor::normal(GetParam(), {400000}, 1);
  std::vector<TensorView> tensors;
  double expected = 0;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < 300; ++i) {
    const std::int64_t n = i == 150 ? 100000 : i * 7 % 1000;
    tensors.push_back(x.view().rows(begin, n));
    expected += kernels::sum_of_squares(stream_, tensors.back());
    begin += n;
  }
  const Tensor sum(DType::f64, {1}, Vector{0.7});
  kernels::add_sums_of_squares(stream_, tensors, sum);
  // Both sums round each of `begin` terms, and each of 300 tensors, in double.
  const double tolerance = 8 * 0x1p-53 * std::sqrt(static_cast<double>(begin)) * expected;
  const double first = sum.values()[0];
  EXPECT_NEAR(first, 0.7 + expected, tolerance);
  const Tensor again(DType::f64, {1}, Vector{0.7});
  kernels::add_sums_of_squares(stream_, tensors, again);
  EXPECT_EQ(again.values()[0], first);
  kernels::add_sums_of_squares(stream_, {}, sum);
  EXPECT_EQ(sum.values()[0], first);
  const Tensor other(GetParam() == DType::f32 ? DType::f64 : DType::f32, {2});
  EXPECT_THROW(
      kernels::add_sums_of_squares(stream_, std::vector<TensorView>{x, other}, sum),
      Error);
}

// The order of a sum belongs to its length, wherever the tensor lies.
TEST_P(ElementwiseTest, SumOfSquaresDoesNotDependOnTheAddress) {
  const std::int64_t n = 40001;
  const Tensor x = Tensor::normal(GetParam(), {n}, 1), moved(GetParam(), {n + 1});
  const TensorView piece = moved.view().rows(1, n);
  kernels::copy(stream_, x, piece);
  EXPECT_EQ(kernels::sum_of_squares(stream_, piece), kernels::sum_of_squares(stream_, x));
}

TEST(Elementwise, SumIsAddedInDouble) {
  Stream stream(test_device());
  for (const DType dtype : {DType::f64, DType::f32})
    for (const std::int64_t n : {0, 1, 5, 257, 40000}) {
      const Tensor x = Tensor::normal(dtype, {n}, 1), sum(DType::f64, {1}, Vector{100.0});
      double expected = 0, size = 100;
      for (const double v : x.values()) expected += v, size += std::abs(v);
      kernels::add_sum(stream, x, sum);
      // On the host the order is that of this test.
      const double tolerance =
          test_device().is_host() ? 0.0 : 0x1p-53 * size * 8 * std::sqrt(double(n) + 1);
      EXPECT_NEAR(sum.values()[0], 100.0 + expected, tolerance) << n;
      const double once = sum.values()[0];
      kernels::add_sum(stream, x, sum);
      EXPECT_NEAR(sum.values()[0], once + expected, tolerance) << n;
    }
  const Tensor half(DType::bf16, {3}), sum(DType::f64, {1}), narrow(DType::f32, {1});
  EXPECT_THROW(kernels::add_sum(stream, half, sum), Error);
  EXPECT_THROW(kernels::add_sum(stream, narrow, narrow), Error);
  EXPECT_THROW(kernels::add_sum_of_squares(stream, half, narrow), Error);
}

TEST_P(ElementwiseTest, AllFiniteFindsOneElement) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::int64_t n : {1, 17, 40000, 700001}) {
    const Tensor x(GetParam(), {n});
    // The largest finite number of f16 is finite in every type.
    kernels::fill(stream_, x, 65504.0);
    EXPECT_TRUE(kernels::all_finite(stream_, x));
    for (const double bad : {infinity, -infinity, std::nan("")})
      for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
        const Tensor one(GetParam(), {1}, Vector{bad});
        kernels::fill(stream_, x, 1.0);
        kernels::copy(stream_, one, x.view().rows(at, 1));
        EXPECT_FALSE(kernels::all_finite(stream_, x)) << n << " " << at;
      }
  }
}

TEST(Elementwise, MetaTouchesNothing) {
  Stream stream(Device::meta());
  const TensorView x(nullptr, DType::f32, {3, 4}, Device::meta());
  const TensorView n(nullptr, DType::f32, {4}, Device::meta());
  kernels::add(stream, x, x, x);
  kernels::add_bias(stream, x, x, n, x);
  kernels::copy(stream, x, x);
  kernels::fill(stream, x, 1);
  kernels::scale(stream, x, 1);
  kernels::soft_cap(stream, x, 1);
  kernels::soft_cap_backward(stream, x, 1, x);
  kernels::add_column_sums(stream, x, n);
  kernels::accumulate(stream, x, x);
  kernels::sum_parts(stream, x, n);
  kernels::max_parts(stream, x, n);
  const TensorView sum(nullptr, DType::f64, {1}, Device::meta());
  kernels::add_sum(stream, x, sum);
  kernels::add_sum_of_squares(stream, x, sum);
  EXPECT_EQ(kernels::sum_of_squares(stream, x), 0.0);
  EXPECT_TRUE(kernels::all_finite(stream, x));
}

TEST(Elementwise, RefusesWrongShapesTypesAndDevices) {
  Stream stream(test_device());
  const Tensor a(DType::f32, {3, 4}), b(DType::f32, {4, 3}), h(DType::bf16, {3, 4});
  const Tensor strided(DType::f32, {3, 4}, std::int64_t{2});
  const TensorView meta(nullptr, DType::f32, {3, 4}, Device::meta());
  EXPECT_THROW(kernels::add(stream, a, b, a), Error);
  EXPECT_THROW(kernels::add(stream, a, h, a), Error);
  EXPECT_THROW(kernels::add(stream, a, strided, a), Error);
  EXPECT_THROW(kernels::add(stream, a, meta, a), Error);
  EXPECT_THROW(kernels::copy(stream, a, b), Error);
  EXPECT_THROW(kernels::fill(stream, Indices({1}), 0), Error);
  EXPECT_THROW(kernels::soft_cap(stream, a, 0), Error);
  EXPECT_THROW(kernels::soft_cap_backward(stream, a, 1, b), Error);
}

}  // namespace
}  // namespace trireme::test
