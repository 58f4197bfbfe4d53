// Attention in bf16 and fp16 on rows at multiples of 16 bytes.
// SPDX-License-Identifier: Apache-2.0
// A GPU's tensor cores do these; every element, parts, documents and bits are compared.
#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "attention_bounds.hpp"
#include "attention_case.hpp"
#include "attention_part_case.hpp"
#include "base/has_cuda.hpp"
#include "kernels/cuda/attention/attention.hpp"

namespace trireme::test {
namespace {

using kernels::AttentionPart;
using kernels::AttentionShape;

using kernels::AttentionBackward;

// A type, and which of the GPU's forms does backward.
template <class Type, AttentionBackward form>
struct Form {
  using T = Type;
  static constexpr AttentionBackward backward = form;
};

template <class F>
class AttentionHalf : public testing::Test {
 protected:
  void SetUp() override {
    if (test_device().is_host() && F::backward != AttentionBackward::one_pass)
      GTEST_SKIP() << "a host has one form";
    kernels::set_attention_library(kernels::AttentionLibrary::own);
    kernels::set_attention_backward(F::backward);
  }
  void TearDown() override {
    kernels::set_attention_library(kernels::AttentionLibrary::automatic);
    kernels::set_attention_backward(AttentionBackward::automatic);
  }
};
using Types = testing::Types<Form<BFloat16, AttentionBackward::one_pass>,
                             Form<Float16, AttentionBackward::one_pass>,
                             Form<BFloat16, AttentionBackward::two_passes>,
                             Form<Float16, AttentionBackward::two_passes>>;
TYPED_TEST_SUITE(AttentionHalf, Types);

constexpr std::int64_t aligned = 8;  // columns beside operands: 16 bytes

// Without this the tests would pass on what they are not meant for.
template <class T>
void expect_tensor_cores(const AttentionCase<T>& x) {
  if constexpr (has_cuda) {
    if (!test_device().is_cuda()) return;
    OnDevice on({&x.fused, &x.d_fused, &x.outputs, &x.d_outputs});
    EXPECT_TRUE(kernels::cuda::attention_on_tensor_cores(
        x.shape.head_width, std::array{on(x.q()), on(x.k()), on(x.v()), on(x.o()),
                                       on(x.d_o()), on(x.dq()), on(x.dk()), on(x.dv())}))
        << x.describe();
  }
}

template <class T>
void expect_agreement(AttentionCase<T>& x) {
  expect_tensor_cores(x);
  expect_agreement(x, bounds_of(x));
}

TYPED_TEST(AttentionHalf, AgreesWithTheReference) {
  for (const std::int64_t S : {1, 17, 63, 64, 65, 130}) {
    AttentionCase<typename TypeParam::T> x(attention_shape(2, S, 64, 2, {1, 0, 1}), 1,
                                           aligned);
    expect_agreement(x);
  }
  for (const std::int64_t K : {32, 96, 128}) {
    AttentionCase<typename TypeParam::T> x(attention_shape(1, 140, K, 3, {0, 2, 2}), 1,
                                           aligned);
    expect_agreement(x);
  }
}

TYPED_TEST(AttentionHalf, DocumentsAgreeWithTheReference) {
  for (const auto& [K, longest] :
       {std::pair{64, 1}, std::pair{64, 20}, std::pair{128, 90}, std::pair{32, 400}}) {
    AttentionCase<typename TypeParam::T> x(attention_shape(2, 300, K, 1, {0, 0}), 1,
                                           aligned);
    x.cut_documents(longest);
    expect_agreement(x);
  }
}

// Windows that end within a tile of keys, and skip whole ones.
TYPED_TEST(AttentionHalf, WindowsAgreeWithTheReference) {
  for (const auto& [K, window] : {std::pair{64, 40}, std::pair{128, 170}}) {
    AttentionCase<typename TypeParam::T> x(attention_shape(1, 410, K, 2, {1, 0, 1}), 1,
                                           aligned);
    x.see_window(window);
    expect_agreement(x);
  }
}

// An odd row length in elements: plain arithmetic takes over and agrees too.
TYPED_TEST(AttentionHalf, UnalignedRowsAgree) {
  AttentionCase<typename TypeParam::T> x(attention_shape(1, 70, 64, 1, {0, 0}), 1, 5);
  x.forward();
  expect_within<typename TypeParam::T>(x.o(), x.expected().o_THK, bounds_of(x).o,
                                       x.describe());
}

// What parts add up to; o and the gradients are sums in fp32 of operands in T.
TYPED_TEST(AttentionHalf, PartsMakeTheWhole) {
  using T = typename TypeParam::T;
  for (const auto& [K, S, cut, longest] :
       {std::tuple{64, 170, 70, 120}, {128, 170, 70, 120}, {32, 420, 290, 400}}) {
    PartCase<T> x(attention_shape(2, S, K, 2, {1, 0, 1}), aligned);
    x.cut_documents(longest);
    const AttentionPart parts[] = {{{cut, S}, {0, cut}, false, true, true},
                                   {{cut, S}, {cut, S}, true, false, true},
                                   {{0, cut}, {0, cut}, true, true, false}};
    for (const AttentionPart& part : parts) x.forward(part);
    x.round();
    for (const AttentionPart& part : parts) x.backward(part);
    const auto o = x.expected();
    const auto d = x.expected_gradients();
    const Bounds bounds = bounds_of(static_cast<const AttentionCase<T>&>(x));
    const auto expect = [&](const TensorView& sum, const Doubles& expected,
                            const Doubles& bound, const char* what) {
      const Doubles got = doubles<float>(sum);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_LE(std::abs(got[i] - expected[i]),
                  1.01 * bound[i] + 1e-5 * (1 + std::abs(expected[i])))
            << what << ", element " << i << ", " << x.describe();
      EXPECT_LT(distance(got, expected), 1e-2) << what << x.describe();
    };
    expect(x.o_sum(), o.o_THK, bounds.o, "o");
    expect(x.dq_sum(), d.dq_THK, bounds.dq, "dq");
    expect(x.dk_sum(), d.dk_TGK, bounds.dk, "dk");
    expect(x.dv_sum(), d.dv_TGK, bounds.dv, "dv");
    EXPECT_LT(distance(doubles<float>(x.lse()), o.lse_TH), merged(x, 2));
  }
}

TYPED_TEST(AttentionHalf, AQueryMaySeeNothing) {
  PartCase<typename TypeParam::T> x(attention_shape(1, 80, 64, 1, {0}), aligned);
  x.first_keys = buffer(DType::i32, {80});
  for (std::int32_t& first : x.first_keys.view().template span<std::int32_t>())
    first = 80;
  x.shape.first_T = x.first_keys.view();
  x.forward(whole(x.shape));
  x.round();
  x.backward(whole(x.shape));
  for (const TensorView& view : {x.o_sum(), x.dq_sum(), x.dk_sum(), x.dv_sum()})
    for (const double value : doubles<float>(view)) ASSERT_EQ(value, 0);
  for (const double value : doubles<float>(x.lse()))
    ASSERT_EQ(value, -std::numeric_limits<double>::infinity());
}

// The sum of earlier tiles of keys shrinks by the difference of two maxima, which must be
// 0 where a tile has no greater one: by what a product rounds off, it would drift against
// later tiles, by up to 4e-6 each here.
TYPED_TEST(AttentionHalf, ManyTilesOfOneScoreShareAlike) {
  using T = typename TypeParam::T;
  constexpr std::int64_t keys = 4080, queries = 16, K = 32;
  for (const double key : {2.5, 2.625, 2.75, 3.25}) {
    PartCase<T> x(attention_shape(1, keys + queries, K, 1, {0}), aligned);
    fill<T>(x.q(), 3.5);
    fill<T>(x.k(), key);
    x.forward({{keys, keys + queries}, {0, keys}, false, true, true});
    const double expected = 3.5 * key * K * x.shape.scale + std::log(keys);
    const double bound = 4 * epsilon<Accumulator<T>>() * expected;
    for (std::int64_t r = keys; r < keys + queries; ++r)
      EXPECT_NEAR(static_cast<double>(x.lse().template data<Accumulator<T>>()[r]),
                  expected, bound)
          << x.describe();
  }
}

// The same bits twice, whatever comes later, and however queries are cut at multiples of
// 256.
TYPED_TEST(AttentionHalf, BitsAreTheSame) {
  using T = typename TypeParam::T;
  AttentionCase<T> x(attention_shape(1, 150, 64, 1, {0, 0}), 1, aligned);
  AttentionCase<T> y(x.shape, 1, aligned);
  for (AttentionCase<T>* c : {&x, &y}) {
    c->forward();
    c->backward();
  }
  EXPECT_TRUE(same_bits(x.outputs.view(), y.outputs.view()));
  EXPECT_TRUE(same_bits(x.lse(), y.lse()));
  EXPECT_TRUE(same_bits(x.d_fused.view(), y.d_fused.view()));
  for (const TensorView& operand : {y.q(), y.k(), y.v()})
    fill<T>(operand.rows(71, 79), 50);
  y.forward();
  EXPECT_TRUE(same_bits(x.o().rows(0, 71), y.o().rows(0, 71)));
  EXPECT_FALSE(same_bits(x.o().rows(71, 1), y.o().rows(71, 1)));

  PartCase<T> whole_queries(attention_shape(1, 340, 32, 1, {0}), aligned);
  PartCase<T> cut_queries(whole_queries.shape, aligned);
  whole_queries.forward({{0, 300}, {0, 300}, true, true, true});
  whole_queries.forward({{0, 300}, {300, 340}});
  cut_queries.forward({{0, 256}, {0, 256}, true, true, true});
  cut_queries.forward({{256, 300}, {0, 300}, true, true, true});
  cut_queries.forward({{0, 256}, {300, 340}});
  cut_queries.forward({{256, 300}, {300, 340}});
  EXPECT_TRUE(same_bits(whole_queries.o_sum(), cut_queries.o_sum()));
  EXPECT_TRUE(same_bits(whole_queries.lse(), cut_queries.lse()));
}

}  // namespace
}  // namespace trireme::test
