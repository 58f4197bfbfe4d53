// Attention forward and with a cache, against plain double loops.
// SPDX-License-Identifier: Apache-2.0
// Causality, bits and memory are tested, too.
#include "kernels/attention.hpp"

#include <gtest/gtest.h>

#include "attention_case.hpp"
#include "kernels/host/attention.hpp"
#include "kernels/host/simd.hpp"

namespace trireme::test {
namespace {

using kernels::AttentionShape;

template <class T>
class Attention : public testing::Test {};
using Types = testing::Types<double, float, BFloat16, Float16>;
TYPED_TEST_SUITE(Attention, Types);

// o is also rounded once to T: half an epsilon. Scores of normal operands are below 6.
TYPED_TEST(Attention, AgreesWithTheReference) {
  using T = TypeParam;
  for (const AttentionShape& shape : awkward_shapes()) {
    AttentionCase<T> x(shape);
    x.forward();
    const auto expected = x.expected();
    const double tolerance = x.accumulated();
    EXPECT_LT(distance(doubles<T>(x.o()), expected.o_THK), tolerance + epsilon<T>() / 2)
        << x.describe();
    // S = 1 may have an lse near zero: its absolute error counts.
    EXPECT_LT(distance(doubles<Accumulator<T>>(x.lse()), expected.lse_TH,
                       std::sqrt(static_cast<double>(expected.lse_TH.size()))),
              tolerance)
        << x.describe();
    x.expect_margins_untouched();
  }
}

// Capped scores, of which the largest are bent by half, in whole sequences and windows.
TYPED_TEST(Attention, CappedScoresAgreeWithTheReference) {
  using T = TypeParam;
  for (AttentionShape shape : awkward_shapes()) {
    if (shape.sequence > 320) continue;
    shape.cap = 2;
    for (const bool window : {false, true}) {
      AttentionCase<T> x(shape);
      if (window) x.see_window(19);
      x.forward();
      const auto expected = x.expected();
      EXPECT_LT(distance(doubles<T>(x.o()), expected.o_THK),
                x.accumulated() + epsilon<T>() / 2)
          << x.describe();
      AttentionCase<T> free(shape);
      free.shape.cap = 0;
      free.forward();
      if (shape.sequence > 2 && !window) {
        EXPECT_GT(distance(doubles<T>(free.o()), expected.o_THK), 1e-2) << x.describe();
      }
    }
  }
}

// Agreement to 1e-13 is what parity of whole models in double stands on.
TEST(AttentionDouble, AgreesToThirteenDigits) {
  AttentionShape shape = attention_shape(2, 257, 64, 2, {0, 1, 1});
  for (const double cap : {0.0, 1.0}) {
    shape.cap = cap;
    AttentionCase<double> x(shape);
    x.forward();
    EXPECT_LT(distance(doubles<double>(x.o()), x.expected().o_THK), 1e-13);
  }
}

// Scores of 10,000: exponentials that are not shifted by the maximum overflow. An error
// of epsilon in a score of size m is one of m epsilon in a probability.
TYPED_TEST(Attention, LargeScoresDoNotOverflow) {
  using T = TypeParam;
  AttentionCase<T> x(attention_shape(1, 130, 64, 1, {0, 0}), 4000);
  x.forward();
  const auto expected = x.expected();
  double largest = 0;
  for (const double lse : expected.lse_TH) largest = std::max(largest, std::abs(lse));
  ASSERT_GT(largest, 1e4);
  const auto o = doubles<T>(x.o());
  for (const double value : o) ASSERT_TRUE(std::isfinite(value));
  EXPECT_LT(distance(o, expected.o_THK), x.accumulated() * largest + epsilon<T>() / 2);
  x.backward();
  for (const TensorView& gradient : {x.dq(), x.dk(), x.dv()})
    for (const double value : doubles<T>(gradient)) ASSERT_TRUE(std::isfinite(value));
}

// What comes later has no influence, to the bit.
TYPED_TEST(Attention, IsCausal) {
  using T = TypeParam;
  for (const std::int64_t last : {0, 15, 16, 62, 63, 64, 99}) {
    AttentionCase<T> x(attention_shape(1, 140, 12, 1, {0, 0})), y(x.shape);
    x.forward();
    for (const TensorView& operand : {y.q(), y.k(), y.v()})
      fill<T>(operand.rows(last + 1, 139 - last), 50);
    y.forward();
    EXPECT_TRUE(same_bits(x.o().rows(0, last + 1), y.o().rows(0, last + 1))) << last;
    EXPECT_FALSE(same_bits(x.o().rows(last + 1, 1), y.o().rows(last + 1, 1))) << last;
  }
}

// A NaN in a key must not be hidden by the maximum.
TYPED_TEST(Attention, NanSpreads) {
  using T = TypeParam;
  AttentionCase<T> x(attention_shape(1, 80, 20, 1, {0}));
  x.k().template data<T>()[40 * x.k().stride(0) + 3] =
      kernels::store<T>(std::numeric_limits<Accumulator<T>>::quiet_NaN());
  x.forward();
  const auto o = doubles<T>(x.o());
  for (std::int64_t t = 0; t < 80; ++t)
    EXPECT_EQ(std::isnan(o[static_cast<std::size_t>(t * 20)]), t >= 40) << t;
}

TYPED_TEST(Attention, BitsDoNotDependOnWorkers) {
  using T = TypeParam;
  AttentionCase<T> x(attention_shape(2, 300, 20, 3, {0, 2, 2, 0})), y(x.shape);
  Arena scratch = host_arena();
  kernels::host::attention(scratch, x.shape, whole(x.shape), 1, x.q(), x.k(), x.v(),
                           x.o(), x.lse());
  for (const std::int64_t workers : {2, 3, 50}) {
    fill<T>(y.o(), 1);
    kernels::host::attention(scratch, y.shape, whole(y.shape), workers, y.q(), y.k(),
                             y.v(), y.o(), y.lse());
    EXPECT_TRUE(same_bits(x.o(), y.o())) << workers;
    EXPECT_TRUE(same_bits(x.lse(), y.lse())) << workers;
  }
}

// The cache of one case: [B, C, G * K], NaN where no position has been written.
template <class T>
struct Cache {
  Cache(const AttentionCase<T>& x, std::int64_t capacity)
      : keys(buffer(dtype_of<T>, {x.shape.batch, capacity, x.key_width})),
        values(buffer(dtype_of<T>, {x.shape.batch, capacity, x.key_width})),
        capacity_(capacity) {
    for (Buffer* target : {&keys, &values})
      for (T& element : target->view().template span<T>())
        element = kernels::store<T>(std::numeric_limits<Accumulator<T>>::quiet_NaN());
  }

  // Writes positions [from, to) of every sequence.
  void append(const AttentionCase<T>& x, std::int64_t from, std::int64_t to) {
    for (std::int64_t b = 0; b < x.shape.batch; ++b)
      for (std::int64_t t = from; t < to; ++t)
        for (std::int64_t c = 0; c < x.key_width; ++c) {
          const std::int64_t source = b * x.shape.sequence + t;
          const std::int64_t target = (b * capacity_ + t) * x.key_width + c;
          keys.view().template data<T>()[target] =
              x.k().template data<T>()[source * x.k().stride(0) + c];
          values.view().template data<T>()[target] =
              x.v().template data<T>()[source * x.v().stride(0) + c];
        }
  }

  Buffer keys, values;

 private:
  std::int64_t capacity_;
};

// Rows [from, to) of every sequence of a matrix, dense.
template <class T>
Buffer positions(const TensorView& view, std::int64_t B, std::int64_t from,
                 std::int64_t to) {
  Buffer part = buffer(dtype_of<T>, {B * (to - from), view.dim(1)});
  const std::int64_t S = view.dim(0) / B;
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = from; t < to; ++t)
      std::copy_n(
          view.data<T>() + (b * S + t) * view.stride(0), view.dim(1),
          part.view().template data<T>() + (b * (to - from) + t - from) * view.dim(1));
  return part;
}

// Feeds positions in pieces that end at `ends` to the cache; each piece must give the
// rows that attention on the whole gives. Sums are taken in another order: two roundings.
template <class T>
void expect_cached(const AttentionShape& shape, const std::vector<std::int64_t>& ends,
                   std::int64_t window = 0) {
  AttentionCase<T> x(shape);
  if (window > 0) x.see_window(window);
  x.forward();
  Cache<T> cache(x, shape.sequence + 3);
  std::int64_t past = 0;
  for (const std::int64_t end : ends) {
    cache.append(x, past, end);
    AttentionShape piece = shape;
    piece.sequence = end - past;
    const Buffer q = positions<T>(x.q(), shape.batch, past, end);
    const Buffer expected = positions<T>(x.o(), shape.batch, past, end);
    const Buffer o = buffer(dtype_of<T>, q.view().shape());
    const Buffer first =
        window > 0 ? positions<std::int32_t>(
                         x.shape.first_T.reshape({x.shape.first_T.elements(), 1}),
                         shape.batch, past, end)
                   : buffer(DType::i32, {0, 1});
    OnDevice on({&q, &cache.keys, &cache.values, &o, &first});
    if (window > 0) piece.first_T = on(first.view()).reshape({first.view().elements()});
    kernels::attention_cached(on.stream, on.scratch, piece, past, on(q.view()),
                              on(cache.keys.view()), on(cache.values.view()),
                              on(o.view()));
    on.copy_back();
    EXPECT_LT(distance(doubles<T>(o.view()), doubles<T>(expected.view())),
              2 * x.accumulated() + epsilon<T>())
        << x.describe() << " positions " << past << " to " << end;
    past = end;
  }
}

TYPED_TEST(Attention, CachedRowByRow) {
  std::vector<std::int64_t> ends;
  for (std::int64_t end = 1; end <= 131; ++end) ends.push_back(end);
  expect_cached<TypeParam>(attention_shape(2, 131, 20, 2, {1, 0, 1}), ends);
}

TYPED_TEST(Attention, CachedInAWindow) {
  expect_cached<TypeParam>(attention_shape(2, 140, 20, 2, {1, 0, 1}),
                           {1, 2, 3, 70, 71, 72, 139, 140}, 7);
}

TYPED_TEST(Attention, CachedInPieces) {
  const auto shape = attention_shape(2, 400, 32, 2, {0, 1, 1});
  expect_cached<TypeParam>(shape, {400});
  expect_cached<TypeParam>(shape, {1, 65, 66, 129, 130, 393, 400});
  expect_cached<TypeParam>(shape, {63, 64, 320, 400});
}

// A meta run takes exactly what a host run takes; an arena of that size suffices.
TEST(AttentionMemory, MetaMeasuresTheScratch) {
  const AttentionShape shape = attention_shape(2, 300, 20, 2, {1, 0, 1});
  AttentionCase<float> x(shape);
  const auto meta = [](const TensorView& view) {
    return TensorView(nullptr, view.dtype(), view.shape(), Device::meta());
  };
  Stream meta_stream(Device::meta());
  Arena forward(Device::meta(), 0, MemoryClass::workspace, "meta");
  Arena backward(Device::meta(), 0, MemoryClass::workspace, "meta");
  kernels::attention(meta_stream, forward, shape, meta(x.q()), meta(x.k()), meta(x.v()),
                     meta(x.o()), meta(x.lse()));
  kernels::attention_backward(meta_stream, backward, shape, meta(x.d_o()), meta(x.q()),
                              meta(x.k()), meta(x.v()), meta(x.o()), meta(x.lse()),
                              meta(x.dq()), meta(x.dk()), meta(x.dv()));
  ASSERT_GT(forward.peak_bytes(), 0U);
  EXPECT_EQ(forward.mark(), 0U);
  Stream stream;
  for (Arena* measured : {&forward, &backward}) {
    Arena exact(Device::host(), measured->peak_bytes(), MemoryClass::workspace, "exact");
    if (measured == &forward)
      kernels::attention(stream, exact, shape, x.q(), x.k(), x.v(), x.o(), x.lse());
    else
      kernels::attention_backward(stream, exact, shape, x.d_o(), x.q(), x.k(), x.v(),
                                  x.o(), x.lse(), x.dq(), x.dk(), x.dv());
    EXPECT_EQ(exact.peak_bytes(), measured->peak_bytes());
  }
}

// S x S scores would be 64 times those of S = 1024 at S = 8192.
TEST(AttentionMemory, ForwardDoesNotGrowWithTheSequence) {
  const auto peak = [](std::int64_t S) {
    const auto shape = attention_shape(1, S, 64, 1, {0});
    Arena arena(Device::meta(), 0, MemoryClass::workspace, "meta");
    const TensorView q(nullptr, DType::f32, {S, 64}, Device::meta());
    kernels::host::attention(arena, shape, whole(shape), 1, q, q, q, q, TensorView());
    return arena.peak_bytes();
  };
  EXPECT_EQ(peak(1024), peak(8192));
}

TEST(AttentionChecks, NameWhatIsWrong) {
  AttentionCase<float> x(attention_shape(1, 4, 8, 2, {0, 1, 1}));
  Stream stream;
  Arena scratch = host_arena();
  AttentionShape wrong = x.shape;
  wrong.kv_head[1] = 2;
  EXPECT_THROW(
      kernels::attention(stream, scratch, wrong, x.q(), x.k(), x.v(), x.o(), x.lse()),
      Error);
  EXPECT_THROW(
      kernels::attention(stream, scratch, x.shape, x.q(), x.q(), x.v(), x.o(), x.lse()),
      Error);
  EXPECT_THROW(
      kernels::attention(stream, scratch, x.shape, x.q(), x.k(), x.v(), x.o(), x.o()),
      Error);
  const Buffer cache = buffer(DType::f32, {1, 6, 16});
  EXPECT_THROW(kernels::attention_cached(stream, scratch, x.shape, 3, x.q(), cache.view(),
                                         cache.view(), x.o()),
               Error);
}

// Units in the last place of A between a value and the truth.
template <class A>
double ulps(A value, long double truth) {
  int exponent = 0;
  std::frexp(static_cast<double>(truth), &exponent);
  const long double unit = std::ldexp(1.0L, exponent - std::numeric_limits<A>::digits);
  return static_cast<double>(std::abs(static_cast<long double>(value) - truth) / unit);
}

template <class A>
void expect_accurate_functions() {
  const Random random(3, sizeof(A));
  constexpr double range = sizeof(A) == 8 ? 1021 : 125;
  double worst_power = 0, worst_log = 0;
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const A x = static_cast<A>(-range * std::pow(random.uniform(i), 4));
    const A power = kernels::simd::exp2<A>(kernels::simd::broadcast(x))[0];
    worst_power =
        std::max(worst_power, ulps(power, std::exp2(static_cast<long double>(x))));
    const A y = static_cast<A>(std::exp2(-static_cast<double>(x) / 8));
    if (y == 1) continue;
    const A log = kernels::simd::log<A>(kernels::simd::broadcast(y))[0];
    worst_log = std::max(worst_log, ulps(log, std::log(static_cast<long double>(y))));
  }
  // Without fused multiply-add: the last sum rounds by 1/2 unit, its product by 1/4, the
  // polynomial before, halved by f, by up to 1/2, and 2^x in [0.7, 1) has the finest
  // unit.
  EXPECT_LT(worst_power, 1.5);
  EXPECT_LT(worst_log, 2.0);
  const auto exp2 = [](A x) {
    return kernels::simd::exp2<A>(kernels::simd::broadcast(x))[0];
  };
  EXPECT_EQ(exp2(0), 1);
  EXPECT_EQ(exp2(-std::numeric_limits<A>::infinity()), 0);
  EXPECT_TRUE(std::isnan(exp2(std::numeric_limits<A>::quiet_NaN())));
  EXPECT_EQ(kernels::simd::log<A>(kernels::simd::broadcast(A(1)))[0], 0);
}

TEST(AttentionFunctions, AreAccurate) {
  expect_accurate_functions<float>();
  expect_accurate_functions<double>();
}

}  // namespace
}  // namespace trireme::test
