// Attention with dropout: the mask by its definition, against plain double loops.
// SPDX-License-Identifier: Apache-2.0
// Finite differences and sums over parts are tested, too.
#include <gtest/gtest.h>

#include "attention_case.hpp"
#include "attention_part_case.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::test {
namespace {

using kernels::AttentionDropout;
using kernels::AttentionPart;
using kernels::AttentionShape;

template <class T>
class AttentionDropouts : public testing::Test {};
using Types = testing::Types<double, float, BFloat16, Float16>;
TYPED_TEST_SUITE(AttentionDropouts, Types);

AttentionDropout dropout_of(const AttentionShape& shape, double rate) {
  return {.rate = rate,
          .seed = 3,
          .stream = 99,
          .first_sequence = 1000000007,
          .heads = shape.heads + 5,
          .first_head = 2,
          .sequence = shape.sequence};
}

// Equal scores and one value for each key show every probability: with 10 queries and
// keys of width 10 p_ij is o_ij, 1 / (i + 1), of which dropout keeps some.
TEST(AttentionDropout, IsAFunctionOfSequenceHeadAndPositions) {
  constexpr std::int64_t S = 10, B = 2, H = 2, whole = 101;
  AttentionShape shape = attention_shape(B, S, S, 1, {0, 0});
  const double rate = 0.4;
  shape.dropout = dropout_of(shape, rate);
  shape.dropout.sequence = whole;
  shape.dropout.query_chunks = shape.dropout.key_chunks = {{20, 23}, {90, 97}};
  const auto position = [](std::int64_t row) { return row < 3 ? 20 + row : 87 + row; };
  AttentionCase<double> x(shape);
  fill<double>(x.q(), 0);
  fill<double>(x.v(), 0);
  for (std::int64_t t = 0; t < B * S; ++t)
    x.v().data<double>()[t * x.v().stride(0) + t % S] = 1;
  x.forward();
  const AttentionDropout& key = shape.dropout;
  std::int64_t dropped = 0;
  for (std::int64_t t = 0; t < B * S; ++t)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t j = 0; j < S; ++j) {
        const std::int64_t i = t % S;
        const std::int64_t line =
            ((key.first_sequence + t / S) * key.heads + key.first_head + h) * whole +
            position(i);
        const std::uint64_t draw = Random(key.seed, key.stream)
                                       .bits(static_cast<std::uint64_t>(
                                           line * ((whole + 1) / 2) + position(j) / 2));
        const auto bits =
            static_cast<std::uint32_t>(position(j) % 2 == 0 ? draw : draw >> 32);
        const bool keeps = static_cast<double>(bits) >= std::round(rate * 0x1p32);
        const double p = j > i ? 0 : 1 / static_cast<double>(i + 1) / (1 - rate);
        dropped += j <= i && !keeps ? 1 : 0;
        EXPECT_NEAR(x.o().data<double>()[t * x.o().stride(0) + h * S + j],
                    keeps ? p : 0.0, 1e-14)
            << t << ' ' << h << ' ' << j;
      }
  // Of 220 pairs, within five standard deviations.
  EXPECT_NEAR(static_cast<double>(dropped), 220 * rate,
              5 * std::sqrt(220 * rate * (1 - rate)));
}

// What is kept grows by 1 / (1 - rate), and its errors do: the norm of a sum grows less.
template <class T>
void expect_agreement(const AttentionShape& shape, std::int64_t window) {
  AttentionCase<T> x(shape);
  if (window > 0) x.see_window(window);
  x.forward();
  x.backward();
  const auto o = x.expected();
  const auto d = x.expected_gradients();
  const double grown = 1 / (1 - shape.dropout.rate);
  const auto floor = [&](const std::vector<double>& values) {
    return std::sqrt(static_cast<double>(values.size()) /
                     static_cast<double>(shape.sequence));
  };
  const double once = grown * x.accumulated() + epsilon<T>() / 2;
  EXPECT_LT(distance(doubles<T>(x.o()), o.o_THK, floor(o.o_THK)), once) << x.describe();
  EXPECT_LT(distance(doubles<Accumulator<T>>(x.lse()), o.lse_TH,
                     std::sqrt(static_cast<double>(o.lse_TH.size()))),
            x.accumulated())
      << x.describe();
  const double limit = grown * (3 * x.accumulated() + 2 * epsilon<T>());
  EXPECT_LT(distance(doubles<T>(x.dq()), d.dq_THK, floor(d.dq_THK)), limit)
      << x.describe();
  EXPECT_LT(distance(doubles<T>(x.dk()), d.dk_TGK, floor(d.dk_TGK)), limit)
      << x.describe();
  EXPECT_LT(distance(doubles<T>(x.dv()), d.dv_TGK, floor(d.dv_TGK)), limit)
      << x.describe();
  x.expect_margins_untouched();
}

TYPED_TEST(AttentionDropouts, AgreeWithTheReference) {
  for (AttentionShape shape : awkward_shapes()) {
    if (shape.sequence > 320) continue;
    shape.dropout = dropout_of(shape, 0.3);
    expect_agreement<TypeParam>(shape, 0);
    if (shape.sequence < 60 || shape.sequence > 65) continue;
    expect_agreement<TypeParam>(shape, 19);
    shape.cap = 2;
    expect_agreement<TypeParam>(shape, 0);
  }
}

// Parts that are merged drop what the whole does.
// The number of the first sequence may lie in memory.
TYPED_TEST(AttentionDropouts, ReadTheFirstSequenceFromMemory) {
  using T = TypeParam;
  AttentionShape shape = attention_shape(2, 19, 8, 1, {0, 0});
  shape.dropout = dropout_of(shape, 0.3);
  Stream stream(test_device());
  const Buffer number(test_device(), DType::f64, {1}, MemoryClass::data, "test");
  kernels::fill(stream, number.view(), static_cast<double>(shape.dropout.first_sequence));
  AttentionShape other = shape;
  other.dropout.first_sequence = 5;
  other.dropout.first_sequence_1 = number.view();
  AttentionCase<T> x(shape), y(other);
  for (AttentionCase<T>* const one : {&x, &y}) {
    one->forward();
    one->backward();
  }
  EXPECT_EQ(doubles<T>(x.o()), doubles<T>(y.o()));
  EXPECT_EQ(doubles<T>(x.dq()), doubles<T>(y.dq()));
  EXPECT_EQ(doubles<T>(x.dk()), doubles<T>(y.dk()));
}

TYPED_TEST(AttentionDropouts, InPartsMakeTheWhole) {
  using T = TypeParam;
  using A = Accumulator<T>;
  AttentionShape shape = attention_shape(2, 150, 20, 2, {1, 0, 1});
  shape.dropout = dropout_of(shape, 0.2);
  const AttentionPart parts[] = {{{0, 63}, {0, 63}, true, true, true},
                                 {{63, 150}, {63, 150}, true, true, true},
                                 {{63, 150}, {0, 63}}};
  PartCase<T> x(shape);
  for (const AttentionPart& part : parts) x.forward(part);
  x.round();
  for (const AttentionPart& part : parts) x.backward(part);
  const auto o = x.expected();
  const auto d = x.expected_gradients();
  const double grown = 1 / (1 - shape.dropout.rate);
  const double tolerance = grown * merged(x, 3);
  EXPECT_LT(distance(doubles<A>(x.o_sum()), o.o_THK), grown * merged_sums(x, 3));
  const double limit = 3 * tolerance + 2 * grown * epsilon<T>();
  EXPECT_LT(distance(doubles<A>(x.dq_sum()), d.dq_THK), limit);
  EXPECT_LT(distance(doubles<A>(x.dk_sum()), d.dk_TGK), limit);
  EXPECT_LT(distance(doubles<A>(x.dv_sum()), d.dv_TGK), limit);
}

// x += step * direction
void move(const TensorView& x, const std::vector<double>& direction, double step) {
  for (std::int64_t r = 0; r < x.dim(0); ++r)
    for (std::int64_t c = 0; c < x.dim(1); ++c)
      x.data<double>()[r * x.stride(0) + c] +=
          step * direction[static_cast<std::size_t>(r * x.dim(1) + c)];
}

// As AttentionGradientDouble.AgreesWithFiniteDifferences, whose limit grows with what is
// kept.
TEST(AttentionDropout, GradientsAgreeWithFiniteDifferences) {
  AttentionShape shape = attention_shape(2, 70, 12, 2, {1, 0, 1});
  shape.dropout = dropout_of(shape, 0.25);
  AttentionCase<double> x(shape);
  x.forward();
  x.backward();
  const auto d_o = doubles<double>(x.d_o());
  const auto loss = [&] {
    x.forward();
    const auto o = doubles<double>(x.o());
    double sum = 0;
    for (std::size_t i = 0; i < o.size(); ++i) sum += d_o[i] * o[i];
    return sum;
  };
  const std::pair<TensorView, TensorView> pairs[] = {
      {x.q(), x.dq()}, {x.k(), x.dk()}, {x.v(), x.dv()}};
  const double h = std::cbrt(epsilon<double>());
  for (const auto& [operand, gradient] : pairs) {
    const auto dx = doubles<double>(gradient);
    std::vector<double> direction(dx.size());
    const Random random(11, 5);
    for (std::size_t i = 0; i < direction.size(); ++i) direction[i] = random.normal(i);
    const double size = norm(direction);
    double expected = 0;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      direction[i] /= size;
      expected += dx[i] * direction[i];
    }
    move(operand, direction, h);
    const double above = loss();
    move(operand, direction, -2 * h);
    const double below = loss();
    move(operand, direction, h);
    const double limit = 4 * h * h * norm(d_o) / (1 - shape.dropout.rate) +
                         epsilon<double>() / h * norm(d_o);
    EXPECT_NEAR((above - below) / (2 * h), expected, limit);
  }
}

}  // namespace
}  // namespace trireme::test
