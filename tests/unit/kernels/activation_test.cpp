// Every activation against the reference, by finite differences, in the tails.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"

#include <limits>

#include "kernels/reference/activation.hpp"
#include "unit/kernels/activation_kinds.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::test {
namespace {

namespace reference = kernels::reference;
using kernels::Activation;
using kernels::row_of;

constexpr std::int64_t sizes[] = {1, 3, 8, 17, 64, 127, 257};

class ActivationTest : public testing::TestWithParam<DType> {
 protected:
  // exp and the division give a few roundings, the argument, below 16 here, some more.
  double error() const { return 32 * roundoff(accumulator_of(GetParam())); }
  Stream stream_{test_device()};
};
INSTANTIATE_TEST_SUITE_P(Types, ActivationTest, every_type, type_name);

// The values of u as rows of (gates, what they let through), or of x alone.
struct Inputs {
  Activation kind;
  std::int64_t F;
  Shape shape(std::int64_t rows) const { return {rows, row_of(kind).gated ? 2 * F : F}; }
  // Where in u the input (of the gate) of output i lies.
  std::size_t at(std::size_t i) const {
    const auto width = static_cast<std::size_t>(F);
    return row_of(kind).gated ? i / width * 2 * width + i % width : i;
  }
};

// What an activation and its gradients are by the reference.
struct Expected {
  Vector a, du;
  Expected(const Inputs& of, const Vector& u, const Vector& da)
      : a(da.size()), du(u.size()) {
    const std::size_t up = row_of(of.kind).gated ? static_cast<std::size_t>(of.F) : 0;
    for (std::size_t i = 0; i < da.size(); ++i) {
      const std::size_t at = of.at(i);
      const double through = up > 0 ? u[at + up] : 1;
      a[i] = reference::activation(of.kind, u[at], through);
      du[at] = da[i] * reference::activation_slope(of.kind, u[at], through);
      if (up > 0)
        du[at + up] = da[i] * reference::activation_slope_of_up(of.kind, u[at], through);
    }
  }
};

TEST_P(ActivationTest, MatchesReference) {
  for (const Activation kind : activation_kinds())
    for (const std::int64_t N : {1, 3, 17})
      for (const std::int64_t F : sizes)
        for (const std::int64_t padding : {0, 5, 8}) {
          const std::string what =
              format("{} [{}, {}], padding = {}", row_of(kind).name, N, F, padding);
          const Inputs of{kind, F};
          const Tensor u = Tensor::normal(GetParam(), of.shape(N), 1, padding);
          const Tensor da = Tensor::normal(GetParam(), {N, F}, 2, padding);
          const Tensor a(GetParam(), {N, F}, padding);
          const Tensor du(GetParam(), of.shape(N), padding);
          const Expected expected(of, u.values(), da.values());
          kernels::activate(stream_, kind, u, a);
          expect_close(GetParam(), a.values(), expected.a, error(), what);
          kernels::activate_backward(stream_, kind, da, u, du);
          expect_close(GetParam(), du.values(), expected.du, error() * 4, what);
          const Vector once = du.values();
          kernels::activate_backward(stream_, kind, da, u, du);  // written, not added
          EXPECT_EQ(du.values(), once) << what;
          if (!row_of(kind).gated) {
            kernels::activate_backward(stream_, kind, da, u, da);  // in place
            EXPECT_EQ(da.values(), once) << what;
          }
          EXPECT_TRUE(a.padding_is_intact() && du.padding_is_intact()) << what;
        }
}

TEST(Activation, BackwardIsTheDerivative) {
  Stream stream(test_device());
  for (const Activation kind : activation_kinds()) {
    const Inputs of{kind, 17};
    const Shape shape = of.shape(3), half{3, 17};
    const Tensor u = Tensor::normal(DType::f64, shape, 1), du(DType::f64, shape);
    const Tensor da = Tensor::normal(DType::f64, half, 2);
    kernels::activate_backward(stream, kind, da, u, du);
    const auto value = [&](const Vector& values) {
      const Tensor a(DType::f64, half);
      kernels::activate(stream, kind, Tensor(DType::f64, shape, values), a);
      return a.values();
    };
    expect_derivative(value, u.values(), da.values(), du.values(), row_of(kind).name);
  }
}

// The lower tail has small relative error: sigma is not made from 1 + tanh. At x = -5 the
// argument of exp is -17, whose roundings are multiplied by 17.
TEST(Activation, GeluIsAccurateInTheLowerTail) {
  Stream stream(test_device());
  Vector x;
  for (int i = 0; i <= 500; ++i) x.push_back(-0.01 * i);
  const Shape shape{static_cast<std::int64_t>(x.size())};
  const Tensor in(DType::f32, shape, x), out(DType::f32, shape);
  kernels::activate(stream, Activation::gelu, in, out);
  const Vector rounded = in.values(), y = out.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = reference::activation(Activation::gelu, rounded[i]);
    EXPECT_NEAR(y[i], expected, 80 * roundoff(DType::f32) * std::abs(expected)) << x[i];
  }
}

// Inputs beyond the limit are cut off and have no gradient; at the limit they have one.
TEST(Activation, ClampedSwigluIsCutOff) {
  Stream stream(test_device());
  const Vector gates = {8, 7, 2, 2, 2, -9, 8}, ups = {1, 1, 7, 9, -8, -7, 30};
  const auto n = static_cast<std::int64_t>(gates.size());
  Vector both = gates;
  both.insert(both.end(), ups.begin(), ups.end());
  const Tensor u(DType::f64, {1, 2 * n}, both), a(DType::f64, {1, n});
  const Tensor ones(DType::f64, {1, n}, Vector(gates.size(), 1.0));
  const Tensor du(DType::f64, {1, 2 * n});
  kernels::activate(stream, Activation::clamped_swiglu, u, a);
  kernels::activate_backward(stream, Activation::clamped_swiglu, ones, u, du);
  const auto glu = [](double g) { return g / (1 + std::exp(-1.702 * g)); };
  const Vector expected = {2 * glu(7),  2 * glu(7),   8 * glu(2), 8 * glu(2),
                           -6 * glu(2), -6 * glu(-9), 8 * glu(7)};
  const Vector values = a.values(), slopes = du.values();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], 1e-14 * std::abs(expected[i])) << i;
  for (std::size_t i = 0; i < gates.size(); ++i) {
    EXPECT_EQ(slopes[i] != 0, gates[i] <= 7) << i;
    EXPECT_EQ(slopes[gates.size() + i] != 0, std::abs(ups[i]) <= 7) << i;
  }
}

TEST_P(ActivationTest, LargeMagnitudesAreExact) {
  const double big = GetParam() == DType::f16 ? 60000.0 : 0x1p100;
  const Shape shape{2};
  const Tensor x(GetParam(), shape, Vector{big, -big}), y(GetParam(), shape);
  const Vector stored = x.values();
  kernels::activate(stream_, Activation::gelu, x, y);
  EXPECT_EQ(y.values(), (Vector{stored[0], 0.0}));
  const Tensor one(GetParam(), shape, Vector{1, 1}), dx(GetParam(), shape);
  kernels::activate_backward(stream_, Activation::gelu, one, x, dx);
  EXPECT_EQ(dx.values(), (Vector{1, 0}));
  // Rows of (gate, up) = (big, 1) and (-big, 1).
  const Tensor gate_up(GetParam(), {2, 2}, Vector{big, 1, -big, 1});
  const Tensor z(GetParam(), {2, 1}), dgate_up(GetParam(), {2, 2});
  kernels::activate(stream_, Activation::swiglu, gate_up, z);
  EXPECT_EQ(z.values(), (Vector{stored[0], 0.0}));
  kernels::activate_backward(stream_, Activation::swiglu, one.view().reshape({2, 1}),
                             gate_up, dgate_up);
  EXPECT_EQ(dgate_up.values(), (Vector{1, stored[0], 0, 0}));
}

// Values whose squares every type holds.
TEST_P(ActivationTest, SquareOfReluIsExact) {
  const Tensor x(GetParam(), {5}, Vector{-3, -0.5, 0, 1.5, 8});
  const Tensor y(GetParam(), {5}), dx(GetParam(), {5});
  kernels::activate(stream_, Activation::relu2, x, y);
  EXPECT_EQ(y.values(), (Vector{0, 0, 0, 2.25, 64}));
  const Tensor dy(GetParam(), {5}, Vector{1, 1, 1, 0.5, -2});
  kernels::activate_backward(stream_, Activation::relu2, dy, x, dx);
  EXPECT_EQ(dx.values(), (Vector{0, 0, 0, 1.5, -32}));
}

TEST_P(ActivationTest, NotANumberStaysVisible) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Activation kind : activation_kinds()) {
    const Shape shape = Inputs{kind, 1}.shape(1);
    const Tensor u(GetParam(), shape, Vector(static_cast<std::size_t>(shape[1]), nan));
    const Tensor one(GetParam(), {1, 1}, Vector{1});
    const Tensor a(GetParam(), {1, 1}), du(GetParam(), shape);
    kernels::activate(stream_, kind, u, a);
    EXPECT_TRUE(std::isnan(a.values()[0])) << row_of(kind).name;
    kernels::activate_backward(stream_, kind, one, u, du);
    EXPECT_TRUE(std::isnan(du.values()[0])) << row_of(kind).name;
  }
}

}  // namespace
}  // namespace trireme::test
