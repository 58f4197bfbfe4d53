// RMSNorm and LayerNorm against the double-precision reference and finite differences.
// SPDX-License-Identifier: Apache-2.0
// They run twice, which tells = from +=.
#include "kernels/norm.hpp"

#include <utility>

#include "kernels/elementwise.hpp"
#include "kernels/reference/norm.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

constexpr double eps = 1e-5;
enum class Residual { none, separate, in_place };

// Forward and backward of one norm with all its tensors.
struct Norm {
  Norm(DType dtype, bool centered, std::int64_t T, std::int64_t D, std::int64_t padding)
      : centered(centered),
        offset(!centered && padding > 0 ? 1 : 0),
        x(Tensor::normal(dtype, {T, D}, 1, padding)),
        gain(Tensor::normal(dtype, {D}, 2)),
        shift(Tensor::normal(dtype, {D}, 3)),
        dy(Tensor::normal(dtype, {T, D}, 4, padding)),
        y(dtype, {T, D}, padding),
        dx(Tensor::normal(dtype, {T, D}, 5, padding)),
        mean(accumulator_of(dtype), {T}),
        rstd(accumulator_of(dtype), {T}),
        dgain(accumulator_of(dtype), {D}),
        dshift(accumulator_of(dtype), {D}) {}

  void forward() {
    if (centered)
      kernels::layer_norm(stream, x, gain, shift, eps, y, mean, rstd);
    else
      kernels::rms_norm(stream, x, {gain, offset}, eps, y, rstd);
  }
  void add_forward(const kernels::Addends& addends, const TensorView& sum) {
    if (centered)
      kernels::add_layer_norm(stream, addends, sum, gain, shift, eps, y, mean, rstd);
    else
      kernels::add_rms_norm(stream, addends, sum, {gain, offset}, eps, y, rstd);
  }
  void backward(const TensorView& residual) {
    if (centered)
      kernels::layer_norm_backward(stream, dy, x, gain, mean, rstd, residual, dx, dgain,
                                   dshift);
    else
      kernels::rms_norm_backward(stream, dy, x, {gain, offset}, rstd, residual, dx,
                                 dgain);
  }
  kernels::reference::Normalized reference() const {
    return kernels::reference::norm(x.values(), gains(),
                                    centered ? shift.values() : Vector{}, eps);
  }
  // What is multiplied by: with an offset where rows are padded.
  Vector gains() const {
    Vector all = gain.values();
    for (double& each : all) each += offset;
    return all;
  }
  bool padding_is_intact() const {
    return y.padding_is_intact() && dx.padding_is_intact() && x.padding_is_intact();
  }

  bool centered;
  double offset;
  Stream stream{test_device()};
  Tensor x, gain, shift, dy, y, dx, mean, rstd, dgain, dshift;
};

class NormTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, NormTest, every_type, type_name);

void for_each_case(const std::function<void(bool, std::int64_t, std::int64_t,
                                            std::int64_t, const std::string&)>& f) {
  for (const bool centered : {false, true})
    for (const std::int64_t T : {1, 3, 17, 64})
      for (const std::int64_t D : {1, 3, 17, 64, 127, 257})
        for (const std::int64_t padding : {0, 5})
          f(centered, T, D, padding,
            format("{} T = {}, D = {}, padding = {}",
                   centered ? "layer_norm" : "rms_norm", T, D, padding));
}

// What x - mean, a difference of rounded numbers, contributes to x_hat.
double error_of_normalized(DType dtype, const Norm& norm, double rstd) {
  const auto D = static_cast<double>(norm.gain.view().dim(0));
  return roundoff(accumulator_of(dtype)) * (4 + std::sqrt(D)) *
         (largest(norm.x.values()) * rstd + 1);
}

TEST_P(NormTest, ForwardMatchesReference) {
  for_each_case([&](bool centered, auto T, auto D, auto padding,
                    const std::string& what) {
    Norm norm(GetParam(), centered, T, D, padding);
    norm.forward();
    const auto expected = norm.reference();
    const double error = error_of_normalized(GetParam(), norm, largest(expected.rstd_T));
    // x_hat is at most sqrt(D) and carries relative errors of rstd, gain and shift too.
    expect_close(GetParam(), norm.y.values(), expected.y_TD,
                 error * 4 * (largest(norm.gains()) + 1), what);
    const DType sums = accumulator_of(GetParam());
    expect_close(sums, norm.rstd.values(), expected.rstd_T,
                 error * 4 * largest(expected.rstd_T), what);
    if (centered)
      expect_close(sums, norm.mean.values(), expected.mean_T, error * 4, what);
    EXPECT_TRUE(norm.padding_is_intact()) << what;
  });
}

TEST_P(NormTest, BackwardMatchesReference) {
  for (const auto residual_kind :
       {Residual::none, Residual::separate, Residual::in_place})
    for_each_case([&](bool centered, auto T, auto D, auto padding,
                      const std::string& what) {
      Norm norm(GetParam(), centered, T, D, padding);
      norm.forward();
      const auto forward = norm.reference();
      auto expected = kernels::reference::norm_backward(norm.dy.values(), norm.x.values(),
                                                        norm.gains(), eps, centered);
      const Tensor other = Tensor::normal(GetParam(), {T, D}, 9, padding);
      const TensorView residual = residual_kind == Residual::none       ? TensorView()
                                  : residual_kind == Residual::separate ? other.view()
                                                                        : norm.dx.view();
      if (residual_kind != Residual::none) {
        const Vector added =
            residual_kind == Residual::separate ? other.values() : norm.dx.values();
        for (std::size_t i = 0; i < added.size(); ++i) expected.dx_TD[i] += added[i];
      }
      norm.backward(residual);
      const double rstd = largest(forward.rstd_T), dy = largest(norm.dy.values());
      const double error = error_of_normalized(GetParam(), norm, rstd);
      const double g = dy * largest(norm.gains());
      const double n = 1 + std::min(std::sqrt(static_cast<double>(D)),
                                    largest(norm.x.values()) * 2 * rstd);
      expect_close(GetParam(), norm.dx.values(), expected.dx_TD, error * 8 * rstd * g * n,
                   what + ", dx");
      const DType sums = accumulator_of(GetParam());
      const double rows = static_cast<double>(T);
      expect_close(sums, norm.dgain.values(), expected.dgain_D, error * 8 * dy * n * rows,
                   what + ", dgain");
      if (centered)
        expect_close(sums, norm.dshift.values(), expected.dshift_D,
                     roundoff(sums) * dy * rows * rows, what + ", dshift");
      EXPECT_TRUE(norm.padding_is_intact()) << what;
    });
}

// Rows that a GPU keeps in the registers of a warp or of a block, or reads again, and
// more rows than it has teams of threads.
void for_each_large_case(
    const std::function<void(bool, std::int64_t, std::int64_t, const std::string&)>& f) {
  const std::pair<std::int64_t, std::int64_t> sizes[] = {
      {300, 8},  {300, 32}, {1100, 72}, {40, 1024}, {3, 1030},
      {3, 2100}, {3, 4097}, {3, 9000},  {3, 16400}, {2, 33000}};
  for (const bool centered : {false, true})
    for (const auto& [T, D] : sizes)
      f(centered, T, D,
        format("{} T = {}, D = {}", centered ? "layer_norm" : "rms_norm", T, D));
}

TEST_P(NormTest, RowsOfEveryLengthMatchTheReference) {
  for_each_large_case([&](bool centered, auto T, auto D, const std::string& what) {
    Norm norm(GetParam(), centered, T, D, 0);
    norm.forward();
    norm.backward(norm.dx);
    const auto forward = norm.reference();
    const double rstd = largest(forward.rstd_T), dy = largest(norm.dy.values());
    const double error = error_of_normalized(GetParam(), norm, rstd);
    const double gain = largest(norm.gains()), n = largest(norm.x.values()) * 2 * rstd;
    expect_close(GetParam(), norm.y.values(), forward.y_TD, error * 4 * (gain + 1), what);
    auto expected = kernels::reference::norm_backward(norm.dy.values(), norm.x.values(),
                                                      norm.gains(), eps, centered);
    const Vector residual = Tensor::normal(GetParam(), {T, D}, 5).values();
    for (std::size_t i = 0; i < residual.size(); ++i) expected.dx_TD[i] += residual[i];
    expect_close(GetParam(), norm.dx.values(), expected.dx_TD,
                 error * 8 * rstd * dy * gain * (1 + n), what + ", dx");
    const DType sums = accumulator_of(GetParam());
    const double rows = static_cast<double>(T);
    expect_close(sums, norm.dgain.values(), expected.dgain_D,
                 error * 8 * dy * (1 + n) * rows, what + ", dgain");
    if (centered)
      expect_close(sums, norm.dshift.values(), expected.dshift_D,
                   roundoff(sums) * dy * rows * rows, what + ", dshift");
  });
}

// The sum and the norm in one kernel give the bits of add_bias() and the norm.
void expect_fused_equals_two(DType dtype, bool centered, std::int64_t T, std::int64_t D,
                             std::int64_t padding, bool with_bias, bool in_place) {
  const std::string what =
      format("{} T = {}, D = {}, padding = {}, bias {}, in place {}",
             centered ? "layer_norm" : "rms_norm", T, D, padding, with_bias, in_place);
  Norm two(dtype, centered, T, D, padding), one(dtype, centered, T, D, padding);
  const Tensor residual = Tensor::normal(dtype, {T, D}, 6, padding);
  const Tensor branch = Tensor::normal(dtype, {T, D}, 7, padding);
  const Tensor bias = Tensor::normal(dtype, {D}, 8);
  const TensorView third = with_bias ? bias.view() : TensorView();
  kernels::add_bias(two.stream, residual, branch, third, two.x);
  two.forward();
  if (in_place) one.x.set(residual.values());
  one.add_forward({in_place ? one.x.view() : residual.view(), branch, third}, one.x);
  EXPECT_EQ(one.x.values(), two.x.values()) << what;
  EXPECT_EQ(one.y.values(), two.y.values()) << what;
  EXPECT_EQ(one.rstd.values(), two.rstd.values()) << what;
  EXPECT_EQ(one.mean.values(), two.mean.values()) << what;
  EXPECT_TRUE(one.padding_is_intact()) << what;
}

TEST_P(NormTest, SumAndNormInOneKernelGiveTheBitsOfTwo) {
  for (const bool centered : {false, true}) {
    bool odd = false;  // each choice with each kind of row
    for (const std::int64_t D : {1, 17, 64, 257, 1030, 4097, 16400}) {
      for (const std::int64_t padding : {0, 5})
        expect_fused_equals_two(GetParam(), centered, 3, D, padding, odd, padding > 0);
      expect_fused_equals_two(GetParam(), centered, 19, D / 8 * 8 + 8, 8, !odd, odd);
      odd = !odd;
    }
  }
}

TEST_P(NormTest, BackwardTwiceWritesInputAndAddsWeightGradients) {
  for (const bool centered : {false, true}) {
    Norm norm(GetParam(), centered, 17, 127, 0);
    norm.forward();
    norm.backward({});
    const Vector dx = norm.dx.values(), dgain = norm.dgain.values(),
                 dshift = norm.dshift.values();
    norm.backward({});
    EXPECT_EQ(norm.dx.values(), dx);
    const auto doubled = [](Vector v) {
      for (double& x : v) x *= 2;  // exact
      return v;
    };
    EXPECT_EQ(norm.dgain.values(), doubled(dgain));
    EXPECT_EQ(norm.dshift.values(), doubled(dshift));
  }
}

TEST(Norm, BackwardIsTheDerivative) {
  for (const bool centered : {false, true}) {
    Norm norm(DType::f64, centered, 5, 17, 0);
    norm.forward();
    norm.backward({});
    const Vector dy = norm.dy.values();
    const auto check = [&](Tensor Norm::*member, const Vector& gradient,
                           const std::string& what) {
      const auto output = [&](const Vector& values) {
        Norm moved(DType::f64, centered, 5, 17, 0);
        (moved.*member).set(values);
        moved.forward();
        return moved.y.values();
      };
      expect_derivative(output, (norm.*member).values(), dy, gradient, what);
    };
    check(&Norm::x, norm.dx.values(), "dx");
    check(&Norm::gain, norm.dgain.values(), "dgain");
    if (centered) check(&Norm::shift, norm.dshift.values(), "dshift");
  }
}

TEST(Norm, LayerNormKeepsTheVarianceBesideALargeMean) {
  Norm norm(DType::f32, true, 3, 257, 0);
  Vector x = norm.x.values();
  for (double& v : x) v += 1000.0;
  norm.x.set(x);
  norm.forward();
  // A deviation carries the rounding of a difference from 1000 and of the mean, whose D
  // additions err like a random walk: by sqrt(D / 3) roundings of 1000 when made one
  // after another. A variance from E[x^2] - mean^2 would err by 1000 times as much.
  const double steps = 4 + std::sqrt(257.0 / 3);
  expect_close(DType::f32, norm.y.values(), norm.reference().y_TD,
               steps * roundoff(DType::f32) * 1004 * largest(norm.gains()), "y");
}

TEST(Norm, RefusesWrongShapesAndTypes) {
  Norm norm(DType::bf16, true, 3, 17, 0);
  const Tensor short_gain(DType::bf16, {16}), wrong_type(DType::bf16, {3});
  EXPECT_THROW(
      kernels::rms_norm(norm.stream, norm.x, {short_gain}, eps, norm.y, norm.rstd),
      Error);
  EXPECT_THROW(
      kernels::rms_norm(norm.stream, norm.x, {norm.gain}, eps, norm.y, wrong_type),
      Error);
  EXPECT_THROW(norm.add_forward({norm.x, norm.dy, short_gain}, norm.x), Error);
  EXPECT_THROW(norm.add_forward({norm.x, {}, {}}, norm.x), Error);
}

TEST(Norm, MetaTouchesNothing) {
  Stream stream(Device::meta());
  const auto meta = [](const Shape& shape) {
    return TensorView(nullptr, DType::f32, shape, Device::meta());
  };
  const auto x = meta({3, 17}), gain = meta({17}), rstd = meta({3});
  kernels::layer_norm(stream, x, gain, gain, eps, x, rstd, rstd);
  kernels::layer_norm_backward(stream, x, x, gain, rstd, rstd, {}, x, gain, gain);
}

TEST(Norm, SteadyStateAllocatesNothing) {
  Norm norm(DType::f32, true, 64, 257, 0);
  norm.forward();
  norm.backward({});
  const auto before = memory_allocations();
  norm.forward();
  norm.backward({});
  EXPECT_EQ(memory_allocations(), before);
}

}  // namespace
}  // namespace trireme::test
