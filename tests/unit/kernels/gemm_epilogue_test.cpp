// Products fused with activations, derivatives and column sums, against double loops.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_epilogue.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/reference/activation.hpp"
#include "unit/kernels/activation_kinds.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

using kernels::Accumulate;
using kernels::Activation;
using kernels::Transpose;

class GemmEpilogueTest : public testing::TestWithParam<DType> {
 protected:
  Stream stream_{test_device()};
};
INSTANTIATE_TEST_SUITE_P(Types, GemmEpilogueTest, every_type, type_name);

struct Sizes {
  std::int64_t m, n, k, padding;
};
// Ragged; rows that start at multiples of 16 bytes, which fused kernels ask for; both
// with other columns beside them.
constexpr Sizes sizes[] = {{1, 1, 1, 0},    {3, 17, 31, 0}, {3, 17, 31, 5},
                           {65, 64, 40, 0}, {16, 24, 8, 8}, {5, 8, 0, 0}};

// A B^T in double; rows of K.
Vector product(const Vector& a, const Vector& b, const Sizes& of) {
  Vector c(static_cast<std::size_t>(of.m * of.n));
  for (std::int64_t i = 0; i < of.m; ++i)
    for (std::int64_t j = 0; j < of.n; ++j)
      for (std::int64_t k = 0; k < of.k; ++k)
        c[static_cast<std::size_t>(i * of.n + j)] +=
            a[static_cast<std::size_t>(i * of.k + k)] *
            b[static_cast<std::size_t>(j * of.k + k)];
  return c;
}

// Of a sum of n products of order 1, like a random walk.
double error_of_sum(DType dtype, std::int64_t n) {
  return 8 * roundoff(accumulator_of(dtype)) * static_cast<double>(n + 8);
}

// At least the steepest slope of an activation between two values near those in `x`.
double steepest(Activation kind, const Vector& x) {
  double most = 1;
  for (const double v : x)
    most = std::max(most, std::abs(kernels::reference::activation_slope(kind, v)));
  return 1.2 * most;
}

TEST_P(GemmEpilogueTest, ActivationAndWhatItIsGiven) {
  const DType dtype = GetParam();
  for (const Activation kind : ungated_activation_kinds())
    for (const Sizes& of : sizes)
      for (const bool with_bias : {false, true}) {
        const std::string what =
            format("{} [{}, {}] K {} padding {} bias {}", kernels::row_of(kind).name,
                   of.m, of.n, of.k, of.padding, with_bias);
        const Tensor a = Tensor::normal(dtype, {of.m, of.k}, 1, of.padding);
        const Tensor b = Tensor::normal(dtype, {of.n, of.k}, 2, of.padding);
        const Tensor bias = Tensor::normal(dtype, {of.n}, 3);
        const Tensor u(dtype, {of.m, of.n}, of.padding);
        const Tensor y(dtype, {of.m, of.n}, of.padding);
        const TensorView& third = with_bias ? bias.view() : TensorView();
        kernels::gemm_activate(stream_, kind, y, u, a, Transpose::no, b, Transpose::yes,
                               third);
        Vector expected = product(a.values(), b.values(), of);
        const Vector biases = bias.values();
        for (std::size_t i = 0; with_bias && i < expected.size(); ++i)
          expected[i] += biases[i % biases.size()];
        const double error = error_of_sum(dtype, of.k);
        expect_close(dtype, u.values(), expected, error, what + ", u");
        // It sees u rounded or not.
        const double of_u =
            steepest(kind, expected) * (storing(dtype, largest(expected)) + error);
        Vector activated = expected;
        for (double& x : activated) x = kernels::reference::activation(kind, x);
        expect_close(dtype, y.values(), activated, of_u + error, what + ", y");
        EXPECT_TRUE(u.padding_is_intact() && y.padding_is_intact()) << what;
      }
}

TEST_P(GemmEpilogueTest, DerivativeOfTheActivation) {
  const DType dtype = GetParam();
  for (const Activation kind : ungated_activation_kinds())
    for (const Sizes& of : sizes) {
      const std::string what =
          format("{} [{}, {}] K {} padding {}", kernels::row_of(kind).name, of.m, of.n,
                 of.k, of.padding);
      const Tensor a = Tensor::normal(dtype, {of.m, of.k}, 1, of.padding);
      const Tensor b = Tensor::normal(dtype, {of.n, of.k}, 2, of.padding);
      const Tensor u = Tensor::normal(dtype, {of.m, of.n}, 3, of.padding);
      const Tensor du(dtype, {of.m, of.n}, of.padding);
      Vector expected = product(a.values(), b.values(), of);
      const Vector at = u.values();
      const double error = steepest(kind, at) * (error_of_sum(dtype, of.k) +
                                                 storing(dtype, largest(expected)));
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] *= kernels::reference::activation_slope(kind, at[i]);
      for (int twice = 0; twice < 2; ++twice) {  // written, not added to
        kernels::gemm_activate_backward(stream_, kind, du, u, a, Transpose::no, b,
                                        Transpose::yes);
        expect_close(dtype, du.values(), expected,
                     error * (1 + 64 * roundoff(accumulator_of(dtype))), what);
      }
      EXPECT_EQ(u.values(), at) << what;
      EXPECT_TRUE(du.padding_is_intact()) << what;
    }
}

TEST_P(GemmEpilogueTest, ColumnSumsAreAddedBesideTheProduct) {
  const DType dtype = GetParam(), wide = accumulator_of(dtype);
  for (const auto& [O, I, T, padding] : sizes) {  // over T rows
    const std::string what = format("O {} I {} T {} padding {}", O, I, T, padding);
    const Tensor dy = Tensor::normal(dtype, {T, O}, 1, padding);
    const Tensor x = Tensor::normal(dtype, {T, I}, 2, padding);
    const Tensor dw = Tensor::normal(wide, {O, I}, 3, padding);
    const Tensor db = Tensor::normal(wide, {O}, 4);
    Vector expected_w = dw.values(), expected_b = db.values();
    const Vector of_dy = dy.values(), of_x = x.values();
    for (const auto accumulate : {Accumulate::yes, Accumulate::yes, Accumulate::no}) {
      if (accumulate == Accumulate::no) expected_w.assign(expected_w.size(), 0);
      for (std::size_t t = 0; t < static_cast<std::size_t>(T); ++t)
        for (std::size_t o = 0; o < static_cast<std::size_t>(O); ++o) {
          const double g = of_dy[t * static_cast<std::size_t>(O) + o];
          expected_b[o] += g;
          for (std::size_t i = 0; i < static_cast<std::size_t>(I); ++i)
            expected_w[o * static_cast<std::size_t>(I) + i] +=
                g * of_x[t * static_cast<std::size_t>(I) + i];
        }
      kernels::gemm_column_sums(stream_, dw, db, dy, x, accumulate);
      expect_close(wide, dw.values(), expected_w, 2 * error_of_sum(dtype, T), what);
      expect_close(wide, db.values(), expected_b, 2 * error_of_sum(dtype, T), what);
    }
    EXPECT_TRUE(dw.padding_is_intact()) << what;
  }
}

TEST_P(GemmEpilogueTest, HostsGiveTheBitsOfOneKernelAfterAnother) {
  if (!test_device().is_host()) GTEST_SKIP() << "a GPU's library may fuse";
  const DType dtype = GetParam();
  const Tensor a = Tensor::normal(dtype, {33, 40}, 1);
  const Tensor b = Tensor::normal(dtype, {24, 40}, 2),
               bias = Tensor::normal(dtype, {24}, 3);
  const Tensor u(dtype, {33, 24}), y(dtype, {33, 24}), du(dtype, {33, 24});
  const Tensor two_u(dtype, {33, 24}), two_y(dtype, {33, 24}), two_du(dtype, {33, 24});
  const auto no = Transpose::no, yes = Transpose::yes;
  for (const Activation kind : ungated_activation_kinds()) {
    kernels::gemm_activate(stream_, kind, y, u, a, no, b, yes, bias);
    kernels::gemm(stream_, two_u, a, no, b, yes, Accumulate::no, bias);
    kernels::activate(stream_, kind, two_u, two_y);
    EXPECT_EQ(u.values(), two_u.values());
    EXPECT_EQ(y.values(), two_y.values());
    kernels::gemm_activate_backward(stream_, kind, du, u, a, no, b, yes);
    kernels::gemm(stream_, two_du, a, no, b, yes);
    kernels::activate_backward(stream_, kind, two_du, u, two_du);
    EXPECT_EQ(du.values(), two_du.values());
  }
}

TEST(GemmEpilogue, RefusesWhatDoesNotFit) {
  Stream stream(test_device());
  const Tensor a(DType::bf16, {3, 8}), b(DType::bf16, {5, 8}), y(DType::bf16, {3, 5});
  const Tensor wide(DType::f32, {3, 5}), narrow(DType::bf16, {3, 4});
  const auto no = Transpose::no, yes = Transpose::yes;
  const auto product = [&](Activation kind, const TensorView& u, Transpose of_b) {
    kernels::gemm_activate(stream, kind, y, u, a, no, b, of_b, {});
  };
  EXPECT_THROW(product(Activation::gelu, wide, yes), Error);
  EXPECT_THROW(product(Activation::gelu, narrow, yes), Error);
  EXPECT_THROW(product(Activation::gelu, y, no), Error);
  EXPECT_THROW(product(Activation::swiglu, y, yes), Error);
  EXPECT_THROW(kernels::gemm_activate_backward(stream, Activation::gelu, wide, wide, a,
                                               no, b, yes),
               Error);
  const Tensor dw(DType::f32, {8, 8}), sums(DType::f32, {7});
  EXPECT_THROW(kernels::gemm_column_sums(stream, dw, sums, a, a, Accumulate::yes), Error);
}

}  // namespace
}  // namespace trireme::test
