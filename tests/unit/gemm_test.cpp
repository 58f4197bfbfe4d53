// gemm() against double loops: transposes, types, strides, sums, biases, awkward sizes.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/memory.hpp"
#include "base/philox.hpp"
#include "kernels/reference/gemm.hpp"

namespace trireme::kernels {
namespace {

constexpr auto no = Transpose::no, yes = Transpose::yes;
constexpr double sentinel = 7.0;  // exact in every type

// A matrix inside a wider one; the columns beyond it hold a sentinel.
struct Padded {
  std::vector<std::byte> bytes;
  TensorView whole, view;

  Padded(DType type, std::int64_t rows, std::int64_t columns, std::int64_t padding,
         std::uint64_t seed)
      : bytes(static_cast<std::size_t>(rows * (columns + padding)) * size_of(type) + 64),
        whole(bytes.data(), type, {rows, columns + padding}),
        view(whole.columns(0, columns)) {
    const Random random(seed, 1);
    visit_floating(type, [&](auto element) {
      using T = decltype(element);
      const std::int64_t width = columns + padding;
      for (std::int64_t i = 0; i < rows * width; ++i) {
        const double value = i % width < columns
                                 ? 2 * random.uniform(static_cast<std::uint64_t>(i)) - 1
                                 : sentinel;
        if constexpr (std::is_same_v<T, double>) {
          whole.data<T>()[i] = value;
        } else {
          whole.data<T>()[i] = static_cast<T>(static_cast<float>(value));
        }
      }
    });
  }

  double at(std::int64_t row, std::int64_t column) const {
    return visit_floating(view.dtype(), [&](auto element) {
      using T = decltype(element);
      const T value = view.data<T>()[row * view.stride(0) + column];
      if constexpr (std::is_same_v<T, double>) {
        return value;
      } else {
        return static_cast<double>(static_cast<float>(value));
      }
    });
  }
};

double unit_roundoff(DType type) {
  switch (type) {
    case DType::f64: return std::numeric_limits<double>::epsilon() / 2;
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-11;
    default: return std::numeric_limits<float>::epsilon() / 2;
  }
}

struct Case {
  std::int64_t m, n, k;
  Transpose ta, tb;
  DType in, out;
  Accumulate accumulate = Accumulate::no;
  bool bias = false;
  std::int64_t padding = 0;
};

// K products of random sign, each at most 1 and on average 1/9 squared: partial sums stay
// below about sqrt(K), and their K roundings of relative size u add up, as a random walk,
// to u sqrt(K) sqrt(K) / 3 or so. Twelve times that is allowed, and one rounding of the
// result to its type.
double tolerance(const Case& x, double expected) {
  const double terms = static_cast<double>(x.k) + 2;
  const double sum_error = 4 * unit_roundoff(accumulator_of(x.in)) * terms;
  return sum_error + unit_roundoff(x.out) * (std::abs(expected) + sum_error);
}

void expect_correct(const Case& x) {
  SCOPED_TRACE(format("[{}, {}] K {} A{} B{} {} -> {}{}{} padding {}", x.m, x.n, x.k,
                      x.ta == yes ? "^T" : "", x.tb == yes ? "^T" : "", name_of(x.in),
                      name_of(x.out), x.accumulate == Accumulate::yes ? " +=" : "",
                      x.bias ? " bias" : "", x.padding));
  const Padded a(x.in, x.ta == yes ? x.k : x.m, x.ta == yes ? x.m : x.k, x.padding, 1);
  const Padded b(x.in, x.tb == yes ? x.n : x.k, x.tb == yes ? x.k : x.n, 2 * x.padding,
                 2);
  const Padded c(x.out, x.m, x.n, 3 * x.padding, 3);
  const Padded bias(x.in, 1, x.n, 0, 4);
  const TensorView bias_N = x.bias ? bias.view.reshape({x.n}) : TensorView();
  const auto expected =
      reference::gemm(c.view, a.view, x.ta, b.view, x.tb, x.accumulate, bias_N);
  Stream stream;
  gemm(stream, c.view, a.view, x.ta, b.view, x.tb, x.accumulate, bias_N);
  int wrong = 0;
  for (std::int64_t i = 0; i < x.m; ++i) {
    for (std::int64_t j = 0; j < x.n; ++j) {
      const double want = expected[static_cast<std::size_t>(i * x.n + j)];
      if (!(std::abs(c.at(i, j) - want) <= tolerance(x, want))) ++wrong;
    }
    for (std::int64_t j = x.n; j < x.n + 3 * x.padding; ++j)
      if (c.at(i, j) != sentinel) ++wrong;
  }
  EXPECT_EQ(wrong, 0);
}

struct Types {
  DType in, out;
};
constexpr Types all_types[] = {{DType::f64, DType::f64},   {DType::f32, DType::f32},
                               {DType::bf16, DType::bf16}, {DType::bf16, DType::f32},
                               {DType::f16, DType::f16},   {DType::f16, DType::f32}};

class Gemm : public testing::TestWithParam<Types> {};

TEST_P(Gemm, AwkwardSizes) {
  const auto [in, out] = GetParam();
  const std::int64_t sizes[] = {1, 3, 17, 31, 64, 127};
  for (const auto m : sizes)
    for (const auto n : sizes)
      for (const auto k : sizes)
        for (const auto ta : {no, yes})
          for (const auto tb : {no, yes}) expect_correct({m, n, k, ta, tb, in, out});
}

TEST_P(Gemm, StridesSumsAndBiases) {
  const auto [in, out] = GetParam();
  const std::int64_t shapes[][3] = {{1, 1, 1},     {3, 17, 31},    {65, 64, 127},
                                    {127, 31, 64}, {257, 257, 17}, {66, 1, 257}};
  for (const auto& [m, n, k] : shapes)
    for (const auto ta : {no, yes})
      for (const auto tb : {no, yes})
        for (const std::int64_t padding : {0, 5}) {
          expect_correct({m, n, k, ta, tb, in, out, Accumulate::yes, false, padding});
          expect_correct({m, n, k, ta, tb, in, out, Accumulate::no, true, padding});
        }
}

// Large enough that operands are cut along M, N and K, with ragged last parts.
TEST_P(Gemm, CutOperands) {
  const auto [in, out] = GetParam();
  expect_correct({70, 3, 9001, no, yes, in, out, Accumulate::yes});
  expect_correct({67, 2, 9001, yes, no, in, out, Accumulate::no, true});
  expect_correct({65, 1701, 2100, no, no, in, out, Accumulate::no, true});
  expect_correct({66, 1701, 2100, no, yes, in, out, Accumulate::yes, false, 3});
  expect_correct({600, 33, 4101, yes, no, in, out, Accumulate::yes, false, 1});
  expect_correct({66, 600, 4099, no, yes, in, out});
}

TEST_P(Gemm, EmptyExtents) {
  const auto [in, out] = GetParam();
  for (const auto accumulate : {Accumulate::no, Accumulate::yes}) {
    expect_correct({0, 5, 7, no, yes, in, out, accumulate});
    expect_correct({5, 0, 7, yes, no, in, out, accumulate});
    expect_correct({5, 7, 0, no, no, in, out, accumulate, false, 2});
  }
  expect_correct({5, 7, 0, no, yes, in, out, Accumulate::no, true, 2});
  expect_correct({0, 0, 0, no, no, in, out});
}

TEST_P(Gemm, NothingIsAllocatedAfterTheFirstCall) {
  const auto [in, out] = GetParam();
  const Case x{130, 200, 300, yes, no, in, out, Accumulate::yes};
  expect_correct(x);
  const auto before = memory_allocations();
  expect_correct(x);
  EXPECT_EQ(memory_allocations(), before);
}

INSTANTIATE_TEST_SUITE_P(Types, Gemm, testing::ValuesIn(all_types), [](const auto& info) {
  return format("{}_{}", name_of(info.param.in), name_of(info.param.out));
});

TEST(GemmChecks, RefusesWhatDoesNotFit) {
  Stream stream;
  const Padded a(DType::f32, 3, 4, 0, 1), b(DType::f32, 4, 5, 0, 2);
  const Padded c(DType::f32, 3, 5, 0, 3), half(DType::bf16, 3, 5, 0, 3);
  EXPECT_THROW(gemm(stream, c.view, a.view, no, b.view, yes), Error);
  EXPECT_THROW(gemm(stream, c.view, a.view, yes, b.view, no), Error);
  EXPECT_THROW(gemm(stream, half.view, a.view, no, b.view, no), Error);
  const Padded bias(DType::f32, 1, 5, 0, 4);
  EXPECT_THROW(gemm(stream, c.view, a.view, no, b.view, no, Accumulate::yes,
                    bias.view.reshape({5})),
               Error);
}

TEST(GemmChecks, MetaTouchesNothing) {
  Stream stream(Device::meta());
  const TensorView a(nullptr, DType::f32, {300, 400}, Device::meta());
  const TensorView c(nullptr, DType::f32, {300, 300}, Device::meta());
  gemm(stream, c, a, no, a, yes);
}

}  // namespace
}  // namespace trireme::kernels
