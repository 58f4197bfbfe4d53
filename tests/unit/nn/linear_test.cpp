// Linear: its three products in FP8 against the same in double, and who multiplies what.
// SPDX-License-Identifier: Apache-2.0
#include "nn/linear.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>

#include "comm/mesh.hpp"
#include "kernels/runtime/profile.hpp"
#include "nn/fp8_state.hpp"
#include "unit/kernels/elementwise_tensors.hpp"

namespace trireme::nn {
namespace {

using test::Tensor;
using test::Vector;

constexpr std::int64_t T = 64, I = 160, O = 96;

LinearPrecision fp8(Scaling scaling) {
  const bool blocks = scaling == Scaling::blocks || scaling == Scaling::mx;
  return {{DType::e4m3, scaling}, {blocks ? DType::e4m3 : DType::e5m2, scaling}};
}

// Which elements share a scale: those of one (row / rows, column / columns).
struct Group {
  std::int64_t rows, columns;
};
constexpr Group all{1 << 20, 1 << 20};

// x of width `width` in FP8, in double, by the definition.
Vector quantized(const Vector& x, std::int64_t width, DType type, Scaling scaling,
                 Group group) {
  const auto format =
      type == DType::e5m2 ? kernels::Fp8Format::e5m2 : kernels::Fp8Format::e4m3;
  const auto group_of = [&](std::size_t i) {
    const auto at = static_cast<std::int64_t>(i);
    return std::pair{at / width / group.rows, at % width / group.columns};
  };
  std::map<std::pair<std::int64_t, std::int64_t>, double> amax;
  for (std::size_t i = 0; i < x.size(); ++i)
    amax[group_of(i)] = std::max(amax[group_of(i)], std::abs(x[i]));
  Vector result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = amax[group_of(i)] / kernels::fp8_max(format);
    const float scale = static_cast<float>(
        scaling == Scaling::mx ? std::exp2(std::ceil(std::log2(exact))) : exact);
    const float scaled = static_cast<float>(x[i]) * (1.0f / scale);
    result.push_back(double{scale} *
                     kernels::fp8_decode(kernels::fp8_encode(scaled, format), format));
  }
  return result;
}

// Of an operand whose rows or columns are the inner dimension of a product.
Group group_of(Scaling scaling, bool weight, bool inner_columns) {
  if (scaling == Scaling::blocks && weight) return {128, 128};
  if (scaling == Scaling::blocks) return inner_columns ? Group{1, 128} : Group{128, 1};
  if (scaling == Scaling::mx) return inner_columns ? Group{1, 32} : Group{32, 1};
  return all;
}

// C [m, n] = A B of element functions, with the sums of magnitudes.
template <class A, class B>
std::pair<Vector, Vector> product(std::int64_t m, std::int64_t n, std::int64_t k, A a,
                                  B b) {
  Vector sums, sizes;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += a(i, l) * b(l, j);
        size += std::abs(a(i, l) * b(l, j));
      }
      sums.push_back(sum);
      sizes.push_back(size);
    }
  }
  return {sums, sizes};
}

double at(const Vector& x, std::int64_t row, std::int64_t column, std::int64_t width) {
  return x[static_cast<std::size_t>(row * width + column)];
}

// Each of n additions in f32, and on tensor cores in fewer bits, then one rounding.
void expect_close(const Vector& got, const std::pair<Vector, Vector>& want,
                  double roundoff) {
  ASSERT_EQ(got.size(), want.first.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want.first[i],
                0x1p-13 * want.second[i] + roundoff * std::abs(want.first[i]) + 1e-12)
        << i;
}

// A layer with what a pass needs.
struct Bench {
  explicit Bench(Scaling scaling, DType weight_type = DType::f32)
      : w(Tensor::normal(weight_type, {O, I}, 1)),
        dw(DType::f32, {O, I}),
        saved(test::test_device(), 1 << 20, MemoryClass::activations, "saved"),
        scratch(test::test_device(), 1 << 20, MemoryClass::workspace, "scratch"),
        region(alone.group(comm::Axis::tensor), false) {
    layer.weight.name = "layer.weight";
    layer.weight.shape = {O, I};
    layer.weight.boxes.push_back({"layer.weight", {O, I}, {0, 0}, {0, 0}, {O, I}});
    layer.weight.value = w;
    layer.weight.gradient = dw;
    layer.operands.set_precision(scaling == Scaling::none ? LinearPrecision{}
                                                          : fp8(scaling));
    if (layer.operands.precision().one_scale()) {
      state.emplace(std::vector<Fp8Operands*>{&layer.operands}, DelayedScaling{4, 0},
                    region, test::test_device());
      Stream stream(test::test_device());
      state->begin_step(stream);
    }
  }

  // y and dx of one pass.
  void run(const Tensor& x, const TensorView& bias, const Tensor& dy, const Tensor& y,
           const Tensor& dx, DeferredGradients* later = nullptr) {
    Stream stream(test::test_device());
    WeightAccess access;
    WeightGradients gradients(access, later);
    saved.reset();
    Pass pass{stream, saved, scratch, gradients, attention, {1, T}};
    Linear::Saved kept;
    layer.forward(pass, x, bias, y, kept);
    const ArenaScope scope(scratch);
    const Linear::Gradient gradient = layer.output_gradient(pass, dy);
    layer.input_gradient(pass, gradient, dx);
    layer.post_weight_gradient(pass, gradient, x, kept);
    if (later != nullptr) later->run(stream, access);
    stream.synchronize();
  }

  comm::Mesh alone = comm::Mesh::meta({}, 0);
  Tensor w, dw;
  Arena saved, scratch;
  parallel::TensorRegion region;
  parallel::LocalAttention attention;
  Linear layer;
  std::optional<Fp8State> state;
};

void expect_products(Bench& bench, DType type, bool bias, bool deferred) {
  const Tensor x = Tensor::normal(type, {T, I}, 2), dy = Tensor::normal(type, {T, O}, 3);
  const Tensor y(type, {T, O}), dx(type, {T, I});
  const Tensor b = Tensor::normal(type, {O}, 4);
  const Vector before = bench.dw.values();
  DeferredGradients later;
  bench.run(x, bias ? b.view() : TensorView(), dy, y, dx, deferred ? &later : nullptr);
  const LinearPrecision& precision = bench.layer.operands.precision();
  const Scaling scaling = precision.forward.scaling;
  const auto of = [&](const Tensor& values, std::int64_t width, DType format, bool weight,
                      bool inner_columns) {
    return quantized(values.values(), width, format, scaling,
                     group_of(scaling, weight, inner_columns));
  };
  const DType e4m3 = DType::e4m3, back = precision.backward.type;
  const Vector bv = b.values();
  const double rounding = bias ? 2 * test::roundoff(type) : test::roundoff(type);
  Vector xq = of(x, I, e4m3, false, true), wq = of(bench.w, I, e4m3, true, true);
  auto want_y = product(
      T, O, I, [&](auto i, auto l) { return at(xq, i, l, I); },
      [&](auto l, auto j) { return at(wq, j, l, I); });
  if (bias)
    for (std::size_t i = 0; i < want_y.first.size(); ++i)
      want_y.first[i] += bv[i % static_cast<std::size_t>(O)];
  expect_close(y.values(), want_y, rounding);
  Vector dyq = of(dy, O, back, false, true);
  wq = of(bench.w, I, e4m3, true, false);
  expect_close(dx.values(),
               product(
                   T, I, O, [&](auto i, auto l) { return at(dyq, i, l, O); },
                   [&](auto l, auto j) { return at(wq, l, j, I); }),
               test::roundoff(type));
  xq = of(x, I, e4m3, false, false);
  dyq = of(dy, O, back, false, false);
  auto want_dw = product(
      O, I, T, [&](auto i, auto l) { return at(dyq, l, i, O); },
      [&](auto l, auto j) { return at(xq, l, j, I); });
  for (std::size_t i = 0; i < before.size(); ++i) want_dw.first[i] += before[i];
  expect_close(bench.dw.values(), want_dw, test::roundoff(DType::f32));
}

TEST(LinearFp8, IsTheProductOfTheQuantizedOperands) {
  for (const Scaling scaling :
       {Scaling::current, Scaling::delayed, Scaling::blocks, Scaling::mx}) {
    if (test::test_device().is_cuda() && !fp8(scaling).one_scale()) continue;
    for (const DType weights : {DType::f32, DType::bf16}) {
      Bench bench(scaling, weights);
      expect_products(bench, DType::bf16, false, false);
      expect_products(bench, DType::bf16, true, true);  // added to the gradient
    }
  }
}

// All three are counted as products of FP8 matrices, and none of a layer in bf16 is.
TEST(LinearFp8, MultipliesInFp8Alone) {
  const auto products = [] {
    for (const auto& entry : kernels::profile())
      if (entry.name == "gemm, fp8") return entry.calls;
    return std::int64_t{0};
  };
  Bench bench(Scaling::current), plain(Scaling::none, DType::bf16);
  const Tensor x = Tensor::normal(DType::bf16, {T, I}, 2),
               dy = Tensor::normal(DType::bf16, {T, O}, 3);
  const Tensor y(DType::bf16, {T, O}), dx(DType::bf16, {T, I});
  const std::int64_t before = products();
  bench.run(x, {}, dy, y, dx);
  EXPECT_EQ(products() - before, 3);
  plain.run(x, {}, dy, y, dx);
  EXPECT_EQ(products() - before, 3);
}

// What the rules say: values that are not finite give a scale of 1 and NaNs where they
// are; zeros give zeros; numbers of any size are neither lost nor infinite.
TEST(LinearFp8, InjectedValues) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const Tensor dy = Tensor::normal(DType::bf16, {T, O}, 3);
  const Tensor y(DType::bf16, {T, O}), dx(DType::bf16, {T, I});
  const auto first_row = [&](double value) {
    Bench bench(Scaling::current);
    Vector values(static_cast<std::size_t>(T * I), value);
    const Tensor x(DType::bf16, {T, I}, values);
    bench.run(x, {}, dy, y, dx);
    return y.values();
  };
  for (const double y_0 : first_row(0.0)) EXPECT_EQ(y_0, 0.0);
  EXPECT_TRUE(std::isnan(first_row(std::nan("")).front()));
  for (const double size : {1e-35, 1e-40, 1e30}) {
    const Vector got = first_row(size);
    // A library may take denormals for zeros.
    EXPECT_TRUE(size < 1e-36 || test::largest(got) > 0.0) << size;
    for (const double value : got) ASSERT_TRUE(std::isfinite(value)) << size;
  }
  // An infinity saturates at a scale of 1: the step that follows from it is not finite
  // only if the activations themselves are.
  for (const double value : first_row(inf)) ASSERT_TRUE(std::isfinite(value));
}

struct DelayedCase {
  std::vector<float> history;
  float amax, before, want;
};

TEST(DelayedScale, Table) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  const std::vector<DelayedCase> cases = {
      {{0, 0, 0}, 0, 0.25f, 0.25f},      // nothing but zeros: as before
      {{0, 8, 0}, 0, 0.25f, 0.25f},      // a step of zeros: as before
      {{0, 8, 0}, inf, 0.25f, 0.25f},    // an overflow: as before
      {{0, 8, 0}, nan, 0.25f, 0.25f},    // the same
      {{448, 0, 0}, 448, 0.25f, 1.0f},   // the largest number keeps its size
      {{4, 448, 1}, 4, 0.25f, 1.0f},     // the largest of the history counts
      {{896, 448, 1}, 896, 1.0f, 2.0f},  // growth is seen at once
      {{0x1p-140f, 0, 0}, 0x1p-140f, 1.0f, 0x1p-126f},  // never too small to invert
      {{3e38f, 0, 0}, 3e38f, 1.0f, 3e38f / 448},
  };
  for (const DelayedCase& c : cases)
    EXPECT_EQ(delayed_scale(c.history, c.amax, c.before, kernels::Fp8Format::e4m3, 0),
              c.want)
        << c.amax;
  const std::vector<float> history = {448};
  EXPECT_EQ(delayed_scale(history, 448, 1, kernels::Fp8Format::e4m3, 2), 4.0f);
  EXPECT_EQ(delayed_scale({history.data(), 1}, 448, 1, kernels::Fp8Format::e5m2, 0),
            448.0f / 57344);
}

// Delayed scaling takes the first step's scales from its own numbers, the second's from
// the history, whatever its numbers are.
TEST(DelayedScale, LagsByAStep) {
  Bench bench(Scaling::delayed);
  Stream stream(test::test_device());
  const Tensor dy = Tensor::normal(DType::bf16, {T, O}, 3);
  const Tensor y(DType::bf16, {T, O}), dx(DType::bf16, {T, I});
  const auto step = [&](double size) {
    const Tensor x(DType::bf16, {T, I}, Vector(static_cast<std::size_t>(T * I), size));
    bench.state->begin_step(stream);
    bench.run(x, {}, dy, y, dx);
    std::vector<float> amax(static_cast<std::size_t>(bench.state->amaxes()));
    const TensorView all(amax.data(), DType::f32, {bench.state->amaxes()});
    bench.state->bring(stream, all);
    stream.synchronize();
    bench.state->finish_step(stream, all);
    EXPECT_EQ(amax[0], size);
    return test::largest(y.values());
  };
  const double first = step(2.0);
  EXPECT_NEAR(step(1.0), first / 2, 0.02 * first);
  EXPECT_NEAR(step(64.0), first, 0.02 * first);  // saturates at 2: the scale is late
  EXPECT_NEAR(step(64.0), 32 * first, 0.64 * first);
}

}  // namespace
}  // namespace trireme::nn
