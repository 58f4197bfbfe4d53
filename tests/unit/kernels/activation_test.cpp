// SwiGLU and GELU against the reference, by finite differences, in the tails.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"

#include <limits>

#include "kernels/reference/activation.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

namespace reference = kernels::reference;
constexpr std::int64_t sizes[] = {1, 3, 8, 17, 64, 127, 257};

class ActivationTest : public testing::TestWithParam<DType> {
 protected:
  // exp and the division give a few roundings, the argument, below 16 here, some more.
  double error() const { return 32 * roundoff(accumulator_of(GetParam())); }
  Stream stream_{test_device()};
};
INSTANTIATE_TEST_SUITE_P(Types, ActivationTest, every_type, type_name);

TEST_P(ActivationTest, GeluMatchesReference) {
  for (const std::int64_t T : {1, 3, 17})
    for (const std::int64_t F : sizes)
      for (const std::int64_t padding : {0, 5, 8}) {
        const Tensor x = Tensor::normal(GetParam(), {T, F}, 1, padding);
        const Tensor dy = Tensor::normal(GetParam(), {T, F}, 2, padding);
        const Tensor y(GetParam(), {T, F}, padding), dx(GetParam(), {T, F}, padding);
        Vector expected_y, expected_dx;
        const Vector dy_values = dy.values();
        for (const double v : x.values()) {
          const double dy_v = dy_values[expected_y.size()];
          expected_y.push_back(reference::gelu(v));
          expected_dx.push_back(dy_v * reference::gelu_slope(v));
        }
        const std::string what = format("[{}, {}], padding = {}", T, F, padding);
        kernels::gelu(stream_, x, y);
        expect_close(GetParam(), y.values(), expected_y, error(), what);
        kernels::gelu_backward(stream_, dy, x, dx);
        expect_close(GetParam(), dx.values(), expected_dx, error() * 4, what);
        const Vector once = dx.values();
        kernels::gelu_backward(stream_, dy, x, dx);  // written, not added
        EXPECT_EQ(dx.values(), once);
        kernels::gelu_backward(stream_, dy, x, dy);  // in place
        EXPECT_EQ(dy.values(), once);
        EXPECT_TRUE(y.padding_is_intact() && dx.padding_is_intact()) << what;
      }
}

TEST_P(ActivationTest, SwigluMatchesReference) {
  for (const std::int64_t T : {1, 3, 17})
    for (const std::int64_t F : sizes)
      for (const std::int64_t padding : {0, 5, 8}) {
        const Tensor gate_up = Tensor::normal(GetParam(), {T, 2 * F}, 1, padding);
        const Tensor dy = Tensor::normal(GetParam(), {T, F}, 2, padding);
        const Tensor y(GetParam(), {T, F}, padding);
        const Tensor dgate_up(GetParam(), {T, 2 * F}, padding);
        const Vector in = gate_up.values(), dy_values = dy.values();
        Vector expected_y(dy_values.size()), expected_d(in.size());
        const auto width = static_cast<std::size_t>(F);
        for (std::size_t i = 0; i < dy_values.size(); ++i) {
          const std::size_t at = i / width * 2 * width + i % width;
          const double g = in[at], up = in[at + width];
          expected_y[i] = reference::silu(g) * up;
          expected_d[at] = dy_values[i] * up * reference::silu_slope(g);
          expected_d[at + width] = dy_values[i] * reference::silu(g);
        }
        const std::string what = format("[{}, {}], padding = {}", T, F, padding);
        kernels::swiglu(stream_, gate_up, y);
        expect_close(GetParam(), y.values(), expected_y, error(), what);
        kernels::swiglu_backward(stream_, dy, gate_up, dgate_up);
        expect_close(GetParam(), dgate_up.values(), expected_d, error() * 4, what);
        const Vector once = dgate_up.values();
        kernels::swiglu_backward(stream_, dy, gate_up, dgate_up);
        EXPECT_EQ(dgate_up.values(), once);
        EXPECT_TRUE(y.padding_is_intact() && dgate_up.padding_is_intact()) << what;
      }
}

TEST(Activation, BackwardIsTheDerivative) {
  Stream stream(test_device());
  const Shape shape{3, 34}, half{3, 17};
  const Tensor x = Tensor::normal(DType::f64, shape, 1), dx(DType::f64, shape);
  const Tensor dy = Tensor::normal(DType::f64, shape, 2);
  const Tensor dy_half = Tensor::normal(DType::f64, half, 3);
  kernels::gelu_backward(stream, dy, x, dx);
  const auto gelu = [&](const Vector& values) {
    const Tensor y(DType::f64, shape);
    kernels::gelu(stream, Tensor(DType::f64, shape, values), y);
    return y.values();
  };
  expect_derivative(gelu, x.values(), dy.values(), dx.values(), "gelu");
  kernels::swiglu_backward(stream, dy_half, x, dx);
  const auto swiglu = [&](const Vector& values) {
    const Tensor y(DType::f64, half);
    kernels::swiglu(stream, Tensor(DType::f64, shape, values), y);
    return y.values();
  };
  expect_derivative(swiglu, x.values(), dy_half.values(), dx.values(), "swiglu");
}

// The lower tail has small relative error: sigma is not made from 1 + tanh. At x = -5 the
// argument of exp is -17, whose roundings are multiplied by 17.
TEST(Activation, GeluIsAccurateInTheLowerTail) {
  Stream stream(test_device());
  Vector x;
  for (int i = 0; i <= 500; ++i) x.push_back(-0.01 * i);
  const Shape shape{static_cast<std::int64_t>(x.size())};
  const Tensor in(DType::f32, shape, x), out(DType::f32, shape);
  kernels::gelu(stream, in, out);
  const Vector rounded = in.values(), y = out.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = reference::gelu(rounded[i]);
    EXPECT_NEAR(y[i], expected, 80 * roundoff(DType::f32) * std::abs(expected)) << x[i];
  }
}

TEST_P(ActivationTest, LargeMagnitudesAreExact) {
  const double big = GetParam() == DType::f16 ? 60000.0 : 0x1p100;
  const Shape shape{2};
  const Tensor x(GetParam(), shape, Vector{big, -big}), y(GetParam(), shape);
  const Vector stored = x.values();
  kernels::gelu(stream_, x, y);
  EXPECT_EQ(y.values(), (Vector{stored[0], 0.0}));
  const Tensor one(GetParam(), shape, Vector{1, 1}), dx(GetParam(), shape);
  kernels::gelu_backward(stream_, one, x, dx);
  EXPECT_EQ(dx.values(), (Vector{1, 0}));
  // Rows of (gate, up) = (big, 1) and (-big, 1).
  const Tensor gate_up(GetParam(), {2, 2}, Vector{big, 1, -big, 1});
  const Tensor z(GetParam(), {2, 1}), dgate_up(GetParam(), {2, 2});
  kernels::swiglu(stream_, gate_up, z);
  EXPECT_EQ(z.values(), (Vector{stored[0], 0.0}));
  kernels::swiglu_backward(stream_, one.view().reshape({2, 1}), gate_up, dgate_up);
  EXPECT_EQ(dgate_up.values(), (Vector{1, stored[0], 0, 0}));
}

TEST_P(ActivationTest, NotANumberStaysVisible) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x(GetParam(), {1}, Vector{nan}), y(GetParam(), {1});
  kernels::gelu(stream_, x, y);
  EXPECT_TRUE(std::isnan(y.values()[0]));
  const Tensor gate_up(GetParam(), {1, 2}, Vector{nan, 1}), z(GetParam(), {1, 1});
  kernels::swiglu(stream_, gate_up, z);
  EXPECT_TRUE(std::isnan(z.values()[0]));
}

}  // namespace
}  // namespace trireme::test
