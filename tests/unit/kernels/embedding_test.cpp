// Table lookup and its gradient, whole and split over ranks.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding.hpp"

#include <utility>

#include "kernels/reference/embedding.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

namespace reference = kernels::reference;

// Indices with repetitions, some below and above the rows [5, 5 + R).
Indices some_indices(std::int64_t T, std::int64_t R) {
  std::vector<std::int32_t> index;
  for (std::int64_t t = 0; t < T; ++t)
    index.push_back(static_cast<std::int32_t>(t * 7 % (R + 4) + 3));
  return Indices(index);
}

class EmbeddingTest : public testing::TestWithParam<DType> {
 protected:
  Stream stream_{test_device()};
};
INSTANTIATE_TEST_SUITE_P(Types, EmbeddingTest, every_type, type_name);

TEST_P(EmbeddingTest, LooksUpAndAccumulates) {
  for (const std::int64_t T : {1, 3, 17, 127})
    for (const std::int64_t D : {1, 3, 17, 64, 257})
      for (const std::int64_t padding : {0, 5, 8}) {
        const std::int64_t R = 11;
        const auto index = some_indices(T, R);
        const Tensor table = Tensor::normal(GetParam(), {R, D}, 1, padding);
        const Tensor y = Tensor::normal(GetParam(), {T, D}, 2, padding);
        const Vector before = y.values();
        const Vector expected = reference::embedding(index.values(), table.values(),
                                                     static_cast<std::size_t>(D), 5);
        kernels::embedding(stream_, index, table, 5, kernels::Accumulate::yes, y);
        Vector sum = before;
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += expected[i];
        expect_close(GetParam(), y.values(), sum,
                     8 * roundoff(accumulator_of(GetParam())), "accumulated");
        kernels::embedding(stream_, index, table, 5, kernels::Accumulate::no, y);
        EXPECT_EQ(y.values(), expected);
        EXPECT_TRUE(y.padding_is_intact());
      }
}

TEST_P(EmbeddingTest, BackwardMatchesReferenceAndAdds) {
  const DType sums = accumulator_of(GetParam());
  for (const std::int64_t T : {1, 3, 17, 127})
    for (const std::int64_t D : {1, 3, 17, 64, 257})
      for (const std::int64_t padding : {0, 5, 8}) {
        const std::int64_t R = 11;
        const auto index = some_indices(T, R);
        const Tensor dy = Tensor::normal(GetParam(), {T, D}, 1, padding);
        const Tensor dtable(sums, {R, D}, Vector(static_cast<std::size_t>(R * D)),
                            padding);
        const Vector expected = reference::embedding_backward(
            dy.values(), index.values(), 11, static_cast<std::size_t>(D), 5);
        kernels::embedding_backward(stream_, dy, index, 5, dtable);
        // At most T / R + 1 additions of numbers below 5.
        const double absolute = 5 * roundoff(sums) * std::pow(double(T) / 8 + 2, 2);
        expect_close(sums, dtable.values(), expected, absolute, "once");
        kernels::embedding_backward(stream_, dy, index, 5, dtable);
        Vector twice = expected;
        for (double& v : twice) v *= 2;
        expect_close(sums, dtable.values(), twice, 4 * absolute, "twice");
        EXPECT_TRUE(dtable.padding_is_intact());
      }
}

TEST(Embedding, BackwardIsTheAdjoint) {
  Stream stream(test_device());
  const auto index = some_indices(17, 11);
  const Tensor table = Tensor::normal(DType::f64, {11, 9}, 1), y(DType::f64, {17, 9});
  const Tensor dy = Tensor::normal(DType::f64, {17, 9}, 2), dtable(DType::f64, {11, 9});
  kernels::embedding(stream, index, table, 5, kernels::Accumulate::no, y);
  kernels::embedding_backward(stream, dy, index, 5, dtable);
  EXPECT_NEAR(dot(y.values(), dy.values()), dot(table.values(), dtable.values()),
              64 * 0x1p-53 * std::sqrt(dot(y.values(), y.values())) *
                  std::sqrt(dot(dy.values(), dy.values())));
}

// The ranks' parts of a split table sum to the whole: in bf16 exactly, as others are 0.
TEST(Embedding, SplitTableSumsToTheWhole) {
  Stream stream(test_device());
  const auto index = some_indices(127, 7);  // in [3, 13]
  const Tensor table = Tensor::normal(DType::bf16, {20, 17}, 1);
  const Tensor whole(DType::bf16, {127, 17}), sum(DType::bf16, {127, 17});
  kernels::embedding(stream, index, table, 0, kernels::Accumulate::no, whole);
  for (const auto& [first, count] : {std::pair{0, 7}, {7, 6}, {13, 7}})
    kernels::embedding(stream, index, table.view().rows(first, count), first,
                       kernels::Accumulate::yes, sum);
  EXPECT_EQ(sum.values(), whole.values());
}

TEST(Embedding, RefusesWrongShapes) {
  Stream stream(test_device());
  const Tensor table(DType::f32, {4, 8}), y(DType::f32, {2, 7}), z(DType::f32, {3, 8});
  EXPECT_THROW(
      kernels::embedding(stream, Indices({1, 2}), table, 0, kernels::Accumulate::no, y),
      Error);
  EXPECT_THROW(
      kernels::embedding(stream, Indices({1, 2}), table, 0, kernels::Accumulate::no, z),
      Error);
}

}  // namespace
}  // namespace trireme::test
