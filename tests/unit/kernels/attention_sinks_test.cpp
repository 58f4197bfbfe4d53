// Sinks of attention against a softmax with one more logit, and its differences.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_sinks.hpp"

#include <limits>

#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

class Sinks : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, Sinks, every_type, type_name);

// A head of a row has o = sum p_j v_j over the keys, with e^lse the sum of exponentials;
// one more logit makes e^lse + e^sink of it. o is rounded once more to its type.
TEST_P(Sinks, AreOneMoreLogit) {
  const DType dtype = GetParam(), wide = accumulator_of(dtype);
  for (const std::int64_t T : {1, 17, 130})
    for (const std::int64_t H : {1, 3})
      for (const std::int64_t K : {1, 5, 64})
        for (const std::int64_t padding : {0, 3}) {
          Stream stream(test_device());
          const auto heads = static_cast<std::size_t>(H),
                     width = static_cast<std::size_t>(K);
          const Tensor sinks = Tensor::normal(dtype, {H}, 1);
          const Tensor o = Tensor::normal(dtype, {T, H * K}, 2, padding);
          const Tensor d_o = Tensor::normal(dtype, {T, H * K}, 3, padding);
          const Tensor lse = Tensor::normal(wide, {T, H}, 4);
          const Tensor terms(wide, {T, H});
          const Vector before = o.values(), sums = lse.values(), s = sinks.values();
          kernels::add_sinks(stream, sinks, o, lse);
          const Vector after = o.values(), with = lse.values(), d = d_o.values();
          kernels::sink_gradients(stream, sinks, d_o, o, lse, terms);
          const Vector made = terms.values();
          for (std::size_t i = 0; i < with.size(); ++i) {
            const double sum = std::log(std::exp(sums[i]) + std::exp(s[i % heads]));
            const double share = std::exp(sums[i] - sum);
            EXPECT_NEAR(with[i], sum, 16 * roundoff(wide) * (1 + std::abs(sum)));
            double term = 0, size = 0;
            for (std::size_t k = i * width; k < (i + 1) * width; ++k) {
              const double expected = share * before[k];
              EXPECT_NEAR(
                  after[k], expected,
                  storing(dtype, expected) + 32 * roundoff(wide) * std::abs(expected));
              term -= std::exp(s[i % heads] - sum) * d[k] * after[k];
              size += std::abs(d[k] * after[k]);
            }
            EXPECT_NEAR(made[i], term, 64 * roundoff(wide) * (size + std::abs(term)));
          }
          EXPECT_TRUE(o.padding_is_intact());
        }
}

// What no key of a query has is all the sink's.
TEST(SinksOfNothing, TakeAll) {
  Stream stream(test_device());
  const Tensor sinks(DType::f64, {1}, Vector{0.5}),
      o(DType::f64, {1, 2}, Vector{0.0, 0.0});
  const Tensor lse(DType::f64, {1, 1}, Vector{-std::numeric_limits<double>::infinity()});
  kernels::add_sinks(stream, sinks, o, lse);
  EXPECT_EQ(lse.values()[0], 0.5);
  EXPECT_EQ(o.values(), (Vector{0.0, 0.0}));
}

TEST(SinksChecks, NameWhatIsWrong) {
  Stream stream(test_device());
  const Tensor sinks(DType::f32, {3}), o(DType::f32, {2, 8}), lse(DType::f32, {2, 3});
  EXPECT_THROW(kernels::add_sinks(stream, sinks, o, lse), Error);
}

}  // namespace
}  // namespace trireme::test
