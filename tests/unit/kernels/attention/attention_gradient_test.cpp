// Attention backward against plain double loops and finite differences.
// SPDX-License-Identifier: Apache-2.0
// It writes and does not add, and gives the same bits whatever the workers.
#include <gtest/gtest.h>

#include "attention_case.hpp"
#include "kernels/host/attention.hpp"

namespace trireme::test {
namespace {

using kernels::AttentionShape;

template <class T>
class AttentionGradient : public testing::Test {};
using Types = testing::Types<double, float, BFloat16, Float16>;
TYPED_TEST_SUITE(AttentionGradient, Types);

// ds = p (dp - delta) cancels, with an error of delta from o rounded to T: 2 epsilon of T
// beside the accumulators' errors, which enter through p, dp and the last sum.
TYPED_TEST(AttentionGradient, AgreesWithTheReference) {
  using T = TypeParam;
  for (const AttentionShape& shape : awkward_shapes()) {
    AttentionCase<T> x(shape);
    x.forward();
    x.backward();
    const auto expected = x.expected_gradients();
    const double tolerance = 3 * x.accumulated() + 2 * epsilon<T>();
    // With S = 1 the gradients of q and k are zero; they are sums of S terms of size 1
    // with probabilities of size 1/S.
    const auto floor = [&](const std::vector<double>& gradient) {
      return std::sqrt(static_cast<double>(gradient.size()) /
                       static_cast<double>(shape.sequence));
    };
    EXPECT_LT(distance(doubles<T>(x.dq()), expected.dq_THK, floor(expected.dq_THK)),
              tolerance)
        << x.describe();
    EXPECT_LT(distance(doubles<T>(x.dk()), expected.dk_TGK, floor(expected.dk_TGK)),
              tolerance)
        << x.describe();
    EXPECT_LT(distance(doubles<T>(x.dv()), expected.dv_TGK), tolerance) << x.describe();
    x.expect_margins_untouched();
  }
}

// The same of capped scores, whose slope is at most 1: it adds roundings of its own, some
// accumulators' epsilons to each term.
TYPED_TEST(AttentionGradient, OfCappedScoresAgreesWithTheReference) {
  using T = TypeParam;
  for (AttentionShape shape : awkward_shapes()) {
    if (shape.sequence > 320) continue;
    shape.cap = 2;
    AttentionCase<T> x(shape);
    if (shape.sequence % 2 == 0) x.see_window(19);
    x.forward();
    x.backward();
    const auto expected = x.expected_gradients();
    const double tolerance = 3 * x.accumulated() + 2 * epsilon<T>();
    const auto floor = [&](const std::vector<double>& gradient) {
      return std::sqrt(static_cast<double>(gradient.size()) /
                       static_cast<double>(shape.sequence));
    };
    EXPECT_LT(distance(doubles<T>(x.dq()), expected.dq_THK, floor(expected.dq_THK)),
              tolerance)
        << x.describe();
    EXPECT_LT(distance(doubles<T>(x.dk()), expected.dk_TGK, floor(expected.dk_TGK)),
              tolerance)
        << x.describe();
    EXPECT_LT(distance(doubles<T>(x.dv()), expected.dv_TGK), tolerance) << x.describe();
  }
}

// More sequences than a GPU's grid has in one direction of that kernel.
TEST(AttentionGradientDouble, OfManySequencesAgreesWithTheReference) {
  AttentionCase<double> x(attention_shape(1030, 2, 8, 1, {0, 0}));
  x.forward();
  x.backward();
  const auto expected = x.expected_gradients();
  EXPECT_LT(distance(doubles<double>(x.dq()), expected.dq_THK), 1e-13);
  EXPECT_LT(distance(doubles<double>(x.dk()), expected.dk_TGK), 1e-13);
  EXPECT_LT(distance(doubles<double>(x.dv()), expected.dv_TGK), 1e-13);
}

TEST(AttentionGradientDouble, AgreesToThirteenDigits) {
  AttentionShape shape = attention_shape(2, 257, 64, 2, {0, 1, 1});
  for (const double cap : {0.0, 1.0}) {
    shape.cap = cap;
    AttentionCase<double> x(shape);
    x.forward();
    x.backward();
    const auto expected = x.expected_gradients();
    EXPECT_LT(distance(doubles<double>(x.dq()), expected.dq_THK), 1e-13);
    EXPECT_LT(distance(doubles<double>(x.dk()), expected.dk_TGK), 1e-13);
    EXPECT_LT(distance(doubles<double>(x.dv()), expected.dv_TGK), 1e-13);
  }
}

// A key/value head that no query head of this rank uses has a gradient of zero.
TYPED_TEST(AttentionGradient, UnusedHeadsAreZero) {
  using T = TypeParam;
  AttentionCase<T> x(attention_shape(2, 40, 8, 3, {2, 0, 2}));
  x.forward();
  x.backward();
  for (const TensorView& gradient : {x.dk(), x.dv()})
    for (const double value : doubles<T>(gradient.columns(8, 8))) ASSERT_EQ(value, 0);
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// x += step * direction
void move(const TensorView& x, const std::vector<double>& direction, double step) {
  for (std::int64_t r = 0; r < x.dim(0); ++r)
    for (std::int64_t c = 0; c < x.dim(1); ++c)
      x.data<double>()[r * x.stride(0) + c] +=
          step * direction[static_cast<std::size_t>(r * x.dim(1) + c)];
}

// The loss is <do, o>. Central differences with step h = eps^(1/3) err by h^2 / 6 times
// the third derivative, of size 1 to 10 along a direction of norm 1, and by the rounding
// of each output, eps / h, times do.
TEST(AttentionGradientDouble, AgreesWithFiniteDifferences) {
  AttentionCase<double> x(attention_shape(2, 70, 12, 2, {1, 0, 1}));
  x.forward();
  x.backward();
  const auto d_o = doubles<double>(x.d_o());
  const double h = std::cbrt(epsilon<double>());
  const std::pair<TensorView, TensorView> pairs[] = {
      {x.q(), x.dq()}, {x.k(), x.dk()}, {x.v(), x.dv()}};
  std::uint64_t stream = 100;
  for (const auto& [operand, gradient] : pairs) {
    for (int trial = 0; trial < 3; ++trial) {
      const Random random(11, ++stream);
      std::vector<double> direction(static_cast<std::size_t>(operand.elements()));
      for (std::size_t i = 0; i < direction.size(); ++i) direction[i] = random.normal(i);
      const double scale = 1 / norm(direction);
      for (double& value : direction) value *= scale;
      const auto outputs_at = [&](double step) {
        move(operand, direction, step);
        x.forward();
        move(operand, direction, -step);
        return doubles<double>(x.o());
      };
      const auto above = outputs_at(h), below = outputs_at(-h);
      double expected = 0;
      for (std::size_t i = 0; i < d_o.size(); ++i)
        expected += d_o[i] * (above[i] - below[i]) / (2 * h);
      EXPECT_NEAR(dot(doubles<double>(gradient), direction), expected,
                  norm(d_o) * epsilon<double>() / h + 10 * h * h);
    }
  }
}

TYPED_TEST(AttentionGradient, IsWrittenNotAdded) {
  using T = TypeParam;
  AttentionCase<T> x(attention_shape(1, 90, 16, 2, {0, 1, 0})), y(x.shape);
  x.forward();
  x.backward();
  y.forward();
  for (const TensorView& gradient : {y.dq(), y.dk(), y.dv()}) fill<T>(gradient, 5);
  y.backward();
  y.backward();
  EXPECT_TRUE(same_bits(x.dq(), y.dq()));
  EXPECT_TRUE(same_bits(x.dk(), y.dk()));
  EXPECT_TRUE(same_bits(x.dv(), y.dv()));
}

TYPED_TEST(AttentionGradient, BitsDoNotDependOnWorkers) {
  using T = TypeParam;
  AttentionCase<T> x(attention_shape(2, 300, 20, 3, {0, 2, 2, 0})), y(x.shape);
  x.forward();
  y.forward();
  const auto run = [](AttentionCase<T>& c, std::int64_t workers) {
    Arena scratch = host_arena();
    kernels::host::attention_backward(scratch, c.shape, whole(c.shape), workers, c.d_o(),
                                      c.q(), c.k(), c.v(), c.o(), c.lse(), c.dq(), c.dk(),
                                      c.dv());
  };
  run(x, 1);
  for (const std::int64_t workers : {2, 3, 50}) {
    for (const TensorView& gradient : {y.dq(), y.dk(), y.dv()}) fill<T>(gradient, 1);
    run(y, workers);
    EXPECT_TRUE(same_bits(x.dq(), y.dq())) << workers;
    EXPECT_TRUE(same_bits(x.dk(), y.dk())) << workers;
    EXPECT_TRUE(same_bits(x.dv(), y.dv())) << workers;
  }
}

}  // namespace
}  // namespace trireme::test
