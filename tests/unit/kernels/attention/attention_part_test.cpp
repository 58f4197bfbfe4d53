// Attention in parts against plain double loops, whatever the cut.
// SPDX-License-Identifier: Apache-2.0
// Rows outside a part are left alone; bits, memory and checks.
#include <gtest/gtest.h>

#include "attention_case.hpp"
#include "attention_part_case.hpp"
#include "kernels/host/attention.hpp"

namespace trireme::test {
namespace {

using kernels::AttentionPart;
using kernels::AttentionShape;

// Causal attention of sequences cut at `ends`: of each segment on itself first, then on
// the ones before it, the nearest first.
std::vector<AttentionPart> parts_of(const std::vector<std::int64_t>& ends) {
  std::vector<AttentionPart> parts;
  std::vector<Range> segments;
  for (const std::int64_t end : ends) {
    segments.push_back({segments.empty() ? 0 : segments.back().end, end});
    parts.push_back({segments.back(), segments.back(), true, true, true});
  }
  for (std::size_t i = 0; i < segments.size(); ++i)
    for (std::size_t j = i; j-- > 0;) parts.push_back({segments[i], segments[j]});
  return parts;
}

struct Cut {
  AttentionShape shape;
  std::vector<std::int64_t> ends;
};

std::vector<Cut> awkward_cuts() {
  std::vector<Cut> cuts;
  cuts.push_back({attention_shape(2, 2, 20, 2, {1, 0, 1}), {1, 2}});
  cuts.push_back({attention_shape(3, 130, 20, 2, {1, 0, 1}), {63, 128, 130}});
  cuts.push_back({attention_shape(1, 257, 64, 2, {0, 1, 1}), {1, 2, 17, 81, 256, 257}});
  const std::int64_t half = test_device().is_host() && !is_watched() ? 350 : 130;
  cuts.push_back({attention_shape(2, 2 * half, 33, 1, {0, 0}), {half, 2 * half}});
  for (const std::int64_t K : {1, 3, 16, 80})
    cuts.push_back({attention_shape(1, 96, K, 3, {0, 2, 2, 0}), {32, 64, 96}});
  return cuts;
}

template <class T>
class AttentionParts : public testing::Test {};
using Types = testing::Types<double, float, BFloat16, Float16>;
TYPED_TEST_SUITE(AttentionParts, Types);

TYPED_TEST(AttentionParts, MakeTheWhole) {
  using T = TypeParam;
  using A = Accumulator<T>;
  for (const auto& [shape, ends] : awkward_cuts()) {
    PartCase<T> x(shape);
    for (const AttentionPart& part : parts_of(ends)) x.forward(part);
    x.round();
    for (const AttentionPart& part : parts_of(ends)) x.backward(part);
    const auto o = x.expected();
    const auto d = x.expected_gradients();
    const double tolerance = merged(x, ends.size());
    EXPECT_LT(distance(doubles<A>(x.o_sum()), o.o_THK), merged_sums(x, ends.size()))
        << x.describe();
    EXPECT_LT(distance(doubles<A>(x.lse()), o.lse_TH,
                       std::sqrt(static_cast<double>(o.lse_TH.size()))),
              tolerance)
        << x.describe();
    // As in AttentionGradient.AgreesWithTheReference.
    const double limit = 3 * tolerance + 2 * epsilon<T>();
    EXPECT_LT(distance(doubles<A>(x.dq_sum()), d.dq_THK), limit) << x.describe();
    EXPECT_LT(distance(doubles<A>(x.dk_sum()), d.dk_TGK), limit) << x.describe();
    EXPECT_LT(distance(doubles<A>(x.dv_sum()), d.dv_TGK), limit) << x.describe();
    x.expect_margins_untouched();
  }
}

// Rows [rows) of each sequence of a matrix in double.
std::vector<double> rows_of(const std::vector<double>& matrix, std::int64_t S,
                            const Range& rows, std::int64_t B) {
  std::vector<double> part;
  const auto width = static_cast<std::int64_t>(matrix.size()) / (B * S);
  for (std::int64_t b = 0; b < B; ++b)
    part.insert(part.end(), matrix.begin() + (b * S + rows.begin) * width,
                matrix.begin() + (b * S + rows.end) * width);
  return part;
}

// Parts on their own, at the edge of blocks: more queries than keys, causal ones with
// earlier keys. A query outside the part sees nothing.
TYPED_TEST(AttentionParts, AgreeWithTheReferenceOneByOne) {
  using T = TypeParam;
  using A = Accumulator<T>;
  const AttentionShape shape = attention_shape(2, 200, 24, 2, {1, 0, 1});
  const AttentionPart parts[] = {
      {{100, 200}, {0, 1}, false, true, true},  {{3, 4}, {10, 190}, false, true, true},
      {{7, 199}, {64, 128}, false, true, true}, {{65, 130}, {2, 130}, true, true, true},
      {{199, 200}, {0, 200}, true, true, true}, {{10, 80}, {10, 80}, true, true, true}};
  for (const AttentionPart& part : parts) {
    PartCase<T> x(shape);
    x.forward(part);
    x.round();
    x.backward(part);
    std::vector<Range> visible;
    std::int64_t pairs = 0;
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const std::int64_t i = t % shape.sequence - part.queries.begin;
      const bool inside = i >= 0 && i < part.queries.count();
      const std::int64_t end =
          part.causal ? part.keys.end - part.queries.count() + i + 1 : part.keys.end;
      visible.push_back(inside ? Range{part.keys.begin, end} : Range{});
      pairs += visible.back().count();
    }
    EXPECT_EQ(pairs, shape.batch * part.pairs());
    const auto q = doubles<T>(x.q()), k = doubles<T>(x.k()), v = doubles<T>(x.v());
    const auto o = kernels::reference::attention(shape, visible, q, k, v);
    const auto d = kernels::reference::attention_backward(shape, visible,
                                                          doubles<T>(x.d_o()), q, k, v);
    const std::int64_t S = shape.sequence, B = shape.batch;
    const auto expect = [&](const TensorView& view, const std::vector<double>& reference,
                            const Range& rows, double tolerance) {
      const auto got = doubles<A>(view);
      // Gradients of one key cancel to zero: entries are of size one.
      const auto expected = rows_of(reference, S, rows, B);
      EXPECT_LT(distance(rows_of(got, S, rows, B), expected,
                         std::sqrt(static_cast<double>(expected.size()))),
                tolerance)
          << part.queries.begin << " on " << part.keys.begin;
      for (const Range& outside : {Range{0, rows.begin}, Range{rows.end, S}})
        for (const double value : rows_of(got, S, outside, B))
          ASSERT_EQ(value, x.untouched);
    };
    const double tolerance = merged(x, 1);
    expect(x.o_sum(), o.o_THK, part.queries, merged_sums(x, 1));
    expect(x.lse(), o.lse_TH, part.queries, tolerance);
    // dk and dv are sums over up to 192 queries of two heads, of size up to 20.
    const double limit = 20 * (3 * tolerance + 2 * epsilon<T>());
    expect(x.dq_sum(), d.dq_THK, part.queries, limit);
    expect(x.dk_sum(), d.dk_TGK, part.keys, limit);
    expect(x.dv_sum(), d.dv_TGK, part.keys, limit);
  }
}

// What a merge adds to: the same part again doubles every probability before
// normalisation and every gradient.
TYPED_TEST(AttentionParts, AddWhatIsNotNew) {
  using T = TypeParam;
  using A = Accumulator<T>;
  const AttentionPart part{{0, 70}, {0, 70}, true, true, true};
  AttentionPart again = part;
  again.new_queries = again.new_keys = false;
  PartCase<T> once(attention_shape(2, 70, 12, 2, {0, 1, 1})), twice(once.shape);
  once.forward(part);
  once.round();
  once.backward(part);
  twice.forward(part);
  twice.round();
  twice.backward(part);
  twice.backward(again);
  const auto expect_twice = [](const TensorView& one, const TensorView& two) {
    const auto expected = doubles<A>(one);
    auto halves = doubles<A>(two);
    for (double& x : halves) x /= 2;
    EXPECT_LT(distance(halves, expected), epsilon<A>());
  };
  expect_twice(once.dq_sum(), twice.dq_sum());
  expect_twice(once.dk_sum(), twice.dk_sum());
  expect_twice(once.dv_sum(), twice.dv_sum());
  twice.forward(again);
  EXPECT_LT(distance(doubles<A>(twice.o_sum()), doubles<A>(once.o_sum())),
            merged_sums(once, 2));
  const auto before = doubles<A>(once.lse()), after = doubles<A>(twice.lse());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(after[i], before[i] + std::log(2.0), 10 * epsilon<A>());
}

TYPED_TEST(AttentionParts, AWholePartHasTheBitsOfAttention) {
  using T = TypeParam;
  using A = Accumulator<T>;
  PartCase<T> x(attention_shape(2, 300, 20, 2, {0, 1, 1}));
  AttentionCase<T> y(x.shape);
  x.forward(whole(x.shape));
  x.round();
  x.backward(whole(x.shape));
  y.forward();
  y.backward();
  EXPECT_TRUE(same_bits(x.lse(), y.lse()));
  EXPECT_TRUE(same_bits(x.o(), y.o()));
  const std::pair<TensorView, TensorView> pairs[] = {
      {x.dq_sum(), y.dq()}, {x.dk_sum(), y.dk()}, {x.dv_sum(), y.dv()}};
  for (const auto& [sum, rounded] : pairs)
    for (std::int64_t r = 0; r < x.rows; ++r)
      for (std::int64_t c = 0; c < sum.dim(1); ++c)
        ASSERT_EQ(kernels::load(
                      kernels::store<T>(sum.template data<A>()[r * sum.stride(0) + c])),
                  kernels::load(rounded.template data<T>()[r * rounded.stride(0) + c]));
}

TYPED_TEST(AttentionParts, CutQueriesGiveTheSameBits) {
  using T = TypeParam;
  PartCase<T> x(attention_shape(1, 640, 20, 2, {0, 1, 1})), y(x.shape);
  x.forward({{0, 600}, {0, 600}, true, true, true});
  x.forward({{0, 600}, {600, 640}});
  y.forward({{0, 256}, {0, 256}, true, true, true});
  y.forward({{256, 512}, {0, 512}, true, true, true});
  y.forward({{512, 600}, {0, 600}, true, true, true});
  y.forward({{0, 256}, {600, 640}});
  y.forward({{256, 600}, {600, 640}});
  EXPECT_TRUE(same_bits(x.o_sum(), y.o_sum()));
  EXPECT_TRUE(same_bits(x.lse(), y.lse()));
}

TYPED_TEST(AttentionParts, BitsDoNotDependOnWorkers) {
  using T = TypeParam;
  const AttentionPart first{{20, 300}, {20, 300}, true, true, true};
  const AttentionPart second{{20, 300}, {0, 20}, false, false, true};
  const auto run = [&](PartCase<T>& x, std::int64_t workers) {
    Arena scratch = host_arena();
    for (const AttentionPart& part : {first, second})
      kernels::host::attention(scratch, x.shape, part, workers, x.q(), x.k(), x.v(),
                               x.o_sum(), x.lse());
    x.round();
    for (const AttentionPart& part : {first, second})
      kernels::host::attention_backward(scratch, x.shape, part, workers, x.d_o(), x.q(),
                                        x.k(), x.v(), x.o(), x.lse(), x.dq_sum(),
                                        x.dk_sum(), x.dv_sum());
  };
  PartCase<T> x(attention_shape(2, 300, 20, 3, {0, 2, 2, 0}));
  run(x, 1);
  for (const std::int64_t workers : {2, 3, 50}) {
    PartCase<T> y(x.shape);
    run(y, workers);
    EXPECT_TRUE(same_bits(x.o_sum(), y.o_sum())) << workers;
    EXPECT_TRUE(same_bits(x.lse(), y.lse())) << workers;
    EXPECT_TRUE(same_bits(x.dq_sum(), y.dq_sum())) << workers;
    EXPECT_TRUE(same_bits(x.dk_sum(), y.dk_sum())) << workers;
    EXPECT_TRUE(same_bits(x.dv_sum(), y.dv_sum())) << workers;
  }
}

TEST(AttentionPartChecks, NameWhatIsWrong) {
  PartCase<float> x(attention_shape(1, 8, 8, 2, {0, 1, 1}));
  EXPECT_THROW(x.forward({{0, 9}, {0, 8}, false, true, true}), Error);
  EXPECT_THROW(x.forward({{0, 8}, {-1, 8}, false, true, true}), Error);
  EXPECT_THROW(x.forward({{0, 8}, {0, 4}, true, true, true}), Error);
  EXPECT_THROW(x.forward({{4, 4}, {0, 4}, false, true, true}), Error);
  EXPECT_THROW(x.backward({{0, 8}, {4, 4}, false, true, true}), Error);
  // Results of parts are accumulators.
  PartCase<BFloat16> y(x.shape);
  Stream stream;
  Arena scratch = host_arena();
  EXPECT_THROW(kernels::attention_part(stream, scratch, y.shape, whole(y.shape), y.q(),
                                       y.k(), y.v(), y.o(), y.lse()),
               Error);
}

}  // namespace
}  // namespace trireme::test
