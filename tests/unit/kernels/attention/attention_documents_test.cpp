// Attention of sequences of documents against plain double loops, whole and in parts.
// SPDX-License-Identifier: Apache-2.0
// What is hidden has no influence.
#include <gtest/gtest.h>

#include "attention_case.hpp"
#include "attention_part_case.hpp"

namespace trireme::test {
namespace {

using kernels::AttentionPart;
using kernels::AttentionShape;

template <class T>
class AttentionDocuments : public testing::Test {};
using Types = testing::Types<double, float, BFloat16, Float16>;
TYPED_TEST_SUITE(AttentionDocuments, Types);

struct Documents {
  AttentionShape shape;
  std::int64_t longest;
};

// Documents much shorter than a block, of about a block, longer than a group of blocks.
std::vector<Documents> awkward_documents() {
  std::vector<Documents> all;
  const std::int64_t S =
      test_device().is_host() && !is_watched() ? 700 : 300;  // others are slow
  for (const std::int64_t longest : {1, 3, 20, 64, 150, 700})
    all.push_back({attention_shape(2, S, 20, 2, {1, 0, 1}), longest});
  for (const std::int64_t K : {1, 33, 128})
    all.push_back({attention_shape(3, 130, K, 1, {0, 0}), 70});
  return all;
}

// As for Attention and AttentionGradient. With documents of one position the gradients of
// q and k are zero: entries of size one are what counts.
TYPED_TEST(AttentionDocuments, AgreeWithTheReference) {
  using T = TypeParam;
  for (const auto& [shape, longest] : awkward_documents()) {
    AttentionCase<T> x(shape);
    x.cut_documents(longest);
    SCOPED_TRACE(format("{} documents {}", x.describe(), longest));
    x.forward();
    x.backward();
    const auto o = x.expected();
    const auto d = x.expected_gradients();
    const auto size = [](const std::vector<double>& values) {
      return std::sqrt(static_cast<double>(values.size()));
    };
    const double tolerance = x.accumulated();
    EXPECT_LT(distance(doubles<T>(x.o()), o.o_THK), tolerance + epsilon<T>() / 2);
    EXPECT_LT(distance(doubles<Accumulator<T>>(x.lse()), o.lse_TH, size(o.lse_TH)),
              tolerance);
    const double limit = 3 * tolerance + 2 * epsilon<T>();
    EXPECT_LT(distance(doubles<T>(x.dq()), d.dq_THK, size(d.dq_THK)), limit);
    EXPECT_LT(distance(doubles<T>(x.dk()), d.dk_TGK, size(d.dk_TGK)), limit);
    EXPECT_LT(distance(doubles<T>(x.dv()), d.dv_TGK), limit);
    x.expect_margins_untouched();
  }
}

// Parts in an order in which the first that a query meets shows it nothing.
TYPED_TEST(AttentionDocuments, PartsMakeTheWhole) {
  using T = TypeParam;
  using A = Accumulator<T>;
  for (const auto& [shape, longest] : awkward_documents()) {
    PartCase<T> x(shape);
    x.cut_documents(longest);
    SCOPED_TRACE(format("{} documents {}", x.describe(), longest));
    const std::int64_t S = shape.sequence, cut = 100;
    const AttentionPart parts[] = {{{cut, S}, {0, cut}, false, true, true},
                                   {{cut, S}, {cut, S}, true, false, true},
                                   {{0, cut}, {0, cut}, true, true, false}};
    x.forward(parts[0]);
    for (std::int64_t b = 0; b < shape.batch; ++b)
      for (std::int64_t t = cut; t < S; ++t) {
        const std::int64_t row = b * S + t;
        if (x.shape.first_T.template data<std::int32_t>()[row] < cut) continue;
        ASSERT_EQ(x.lse().template data<A>()[row * shape.heads],
                  -std::numeric_limits<A>::infinity());
        ASSERT_EQ(x.o_sum().template data<A>()[row * x.o_sum().stride(0)], 0);
      }
    x.forward(parts[1]);
    x.forward(parts[2]);
    x.round();
    for (const AttentionPart& part : parts) x.backward(part);
    const auto o = x.expected();
    const auto d = x.expected_gradients();
    const auto size = [](const std::vector<double>& values) {
      return std::sqrt(static_cast<double>(values.size()));
    };
    const double tolerance = merged(x, 2);
    EXPECT_LT(distance(doubles<A>(x.o_sum()), o.o_THK), merged_sums(x, 2));
    EXPECT_LT(distance(doubles<A>(x.lse()), o.lse_TH, size(o.lse_TH)), tolerance);
    const double limit = 3 * tolerance + 2 * epsilon<T>();
    EXPECT_LT(distance(doubles<A>(x.dq_sum()), d.dq_THK, size(d.dq_THK)), limit);
    EXPECT_LT(distance(doubles<A>(x.dk_sum()), d.dk_TGK, size(d.dk_TGK)), limit);
    EXPECT_LT(distance(doubles<A>(x.dv_sum()), d.dv_TGK), limit);
  }
}

// A query that sees no key at all gets zeros and gives none, whatever the scratch held.
TYPED_TEST(AttentionDocuments, AQueryMaySeeNothing) {
  using T = TypeParam;
  using A = Accumulator<T>;
  PartCase<T> x(attention_shape(1, 80, 20, 1, {0}));
  x.first_keys = buffer(DType::i32, {80});
  for (std::int32_t& first : x.first_keys.view().template span<std::int32_t>())
    first = 80;
  x.shape.first_T = x.first_keys.view();
  constexpr std::int64_t room = 1 << 18;
  Arena scratch(Device::host(), room * sizeof(A), MemoryClass::workspace, "NaN");
  const TensorView all = scratch.take(dtype_of<A>, {1, room}, "NaN");
  Stream stream;
  fill<A>(all, std::numeric_limits<double>::quiet_NaN());
  scratch.reset();
  kernels::attention_part(stream, scratch, x.shape, whole(x.shape), x.q(), x.k(), x.v(),
                          x.o_sum(), x.lse());
  x.round();
  fill<A>(all, std::numeric_limits<double>::quiet_NaN());
  kernels::attention_part_backward(stream, scratch, x.shape, whole(x.shape), x.d_o(),
                                   x.q(), x.k(), x.v(), x.o(), x.lse(), x.dq_sum(),
                                   x.dk_sum(), x.dv_sum());
  const auto expect_zeros = [&] {
    for (const TensorView& view : {x.o_sum(), x.dq_sum(), x.dk_sum(), x.dv_sum()})
      for (const double value : doubles<A>(view)) ASSERT_EQ(value, 0);
  };
  expect_zeros();
  x.forward(whole(x.shape));
  x.backward(whole(x.shape));
  expect_zeros();
}

// What lies in other documents has no influence, to the bit; one document is as none.
TYPED_TEST(AttentionDocuments, AreIndependent) {
  using T = TypeParam;
  AttentionCase<T> x(attention_shape(1, 300, 20, 1, {0, 0})), y(x.shape), z(x.shape);
  AttentionCase<T> plain(x.shape);
  z.first_keys = buffer(DType::i32, {300});  // zeros
  z.shape.first_T = z.first_keys.view();
  const std::int64_t begin = 70, end = 210;
  for (AttentionCase<T>* c : {&x, &y}) {
    c->first_keys = buffer(DType::i32, {300});
    for (std::int64_t t = 0; t < 300; ++t)
      c->first_keys.view().template data<std::int32_t>()[t] =
          static_cast<std::int32_t>(t < begin ? 0
                                    : t < end ? begin
                                              : end);
    c->shape.first_T = c->first_keys.view();
  }
  for (const TensorView& operand : {y.q(), y.k(), y.v(), y.d_o()}) {
    fill<T>(operand.rows(0, begin), 30);
    fill<T>(operand.rows(end, 300 - end), 30);
  }
  for (AttentionCase<T>* c : {&x, &y, &z, &plain}) {
    c->forward();
    c->backward();
  }
  const auto document = [&](const TensorView& view) {
    return view.rows(begin, end - begin);
  };
  EXPECT_TRUE(same_bits(document(x.o()), document(y.o())));
  EXPECT_TRUE(same_bits(document(x.lse()), document(y.lse())));
  EXPECT_TRUE(same_bits(document(x.dq()), document(y.dq())));
  EXPECT_TRUE(same_bits(document(x.dk()), document(y.dk())));
  EXPECT_TRUE(same_bits(document(x.dv()), document(y.dv())));
  EXPECT_FALSE(same_bits(document(x.o()), document(plain.o())));
  EXPECT_TRUE(same_bits(z.outputs.view(), plain.outputs.view()));
  EXPECT_TRUE(same_bits(z.d_fused.view(), plain.d_fused.view()));
}

TEST(AttentionDocumentsMemory, MetaMeasuresTheScratch) {
  PartCase<float> x(attention_shape(2, 300, 20, 2, {1, 0, 1}));
  x.cut_documents(40);
  const auto on_meta = [](const TensorView& view) {
    return TensorView(nullptr, view.dtype(), view.shape(), Device::meta());
  };
  const auto run = [&](Stream& stream, Arena& scratch, const AttentionShape& shape,
                       const auto& of) {
    const AttentionPart part{{20, 300}, {10, 290}, true, true, true};
    kernels::attention_part(stream, scratch, shape, part, of(x.q()), of(x.k()), of(x.v()),
                            of(x.o_sum()), of(x.lse()));
    kernels::attention_part_backward(stream, scratch, shape, part, of(x.d_o()), of(x.q()),
                                     of(x.k()), of(x.v()), of(x.o()), of(x.lse()),
                                     of(x.dq_sum()), of(x.dk_sum()), of(x.dv_sum()));
  };
  Stream meta(Device::meta()), stream;
  Arena measured(Device::meta(), 0, MemoryClass::workspace, "meta");
  AttentionShape shape = x.shape;
  shape.first_T = on_meta(shape.first_T);
  run(meta, measured, shape, on_meta);
  Arena exact(Device::host(), measured.peak_bytes(), MemoryClass::workspace, "exact");
  run(stream, exact, x.shape, [](const TensorView& view) { return view; });
  EXPECT_EQ(exact.peak_bytes(), measured.peak_bytes());
}

TEST(AttentionDocumentsChecks, NameWhatIsWrong) {
  AttentionCase<float> x(attention_shape(1, 8, 8, 2, {0, 1, 1}));
  Stream stream;
  Arena scratch = host_arena();
  const Buffer wrong[] = {buffer(DType::i32, {7}), buffer(DType::f32, {8})};
  for (const Buffer& first : wrong) {
    AttentionShape shape = x.shape;
    shape.first_T = first.view();
    EXPECT_THROW(
        kernels::attention(stream, scratch, shape, x.q(), x.k(), x.v(), x.o(), x.lse()),
        Error);
  }
}

TEST(CountPositionsBelow, CountsInChunks) {
  const Buffer positions = buffer(DType::i32, {7}), counts = buffer(DType::i32, {7});
  const std::int32_t at[] = {0, 4, 5, 7, 9, 21, 100}, below[] = {0, 0, 1, 3, 3, 4, 8};
  std::copy(std::begin(at), std::end(at), positions.view().data<std::int32_t>());
  OnDevice on({&positions, &counts});
  kernels::count_positions_below(on.stream, on(positions.view()),
                                 std::array{Range{4, 7}, Range{20, 25}},
                                 on(counts.view()));
  on.copy_back();
  for (std::size_t i = 0; i < 7; ++i)
    EXPECT_EQ(counts.view().data<std::int32_t>()[i], below[i]) << i;
}

// A window is what documents that begin at its first positions are, on every device.
TEST(WindowStarts, AreThePositionsBeforeEachQuery) {
  const Buffer positions = buffer(DType::i32, {6}), first = buffer(DType::i32, {6});
  const std::int32_t at[] = {0, 1, 2, 3, 1000000000, 2147483647};
  const std::int32_t of_three[] = {0, 0, 0, 1, 999999998, 2147483645};
  std::copy(std::begin(at), std::end(at), positions.view().data<std::int32_t>());
  OnDevice on({&positions, &first});
  kernels::window_starts(on.stream, on(positions.view()), 3, on(first.view()));
  on.copy_back();
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(first.view().data<std::int32_t>()[i], of_three[i]) << i;
  EXPECT_THROW(
      kernels::window_starts(on.stream, on(positions.view()), 0, on(first.view())),
      Error);
}

}  // namespace
}  // namespace trireme::test
