// gemm() against double loops: transposes, types, strides, sums, biases, awkward sizes.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/device_memory.hpp"
#include "base/memory.hpp"
#include "base/philox.hpp"
#include "kernels/reference/gemm.hpp"
#include "support/device.hpp"

namespace trireme::kernels {
namespace {

constexpr auto no = Transpose::no, yes = Transpose::yes;
constexpr double sentinel = 7.0;  // exact in every type

// A matrix inside a wider one, on the device of the test; the columns beyond it hold a
// sentinel. What the host knows of it is up to date after fetch().
struct Padded {
  std::vector<std::byte> bytes;
  Buffer on_device;
  TensorView whole;       // on the host
  TensorView host, view;  // without the padding: on the host, on the device

  Padded(DType type, std::int64_t rows, std::int64_t columns, std::int64_t padding,
         std::uint64_t seed)
      : bytes(static_cast<std::size_t>(rows * (columns + padding)) * size_of(type) + 64),
        whole(bytes.data(), type, {rows, columns + padding}),
        host(whole.columns(0, columns)),
        view(host) {
    const Random random(seed, 1);
    visit_floating(type, [&](auto element) {
      using T = decltype(element);
      const std::int64_t width = columns + padding;
      for (std::int64_t i = 0; i < rows * width; ++i) {
        const double value = i % width < columns
                                 ? 2 * random.uniform(static_cast<std::uint64_t>(i)) - 1
                                 : sentinel;
        whole.data<T>()[i] = T(static_cast<Accumulator<T>>(value));
      }
    });
    if (test::test_device().is_host()) return;
    on_device =
        Buffer(test::test_device(), type, whole.shape(), MemoryClass::data, "test");
    view = on_device.view().columns(0, columns);
    Stream stream(test::test_device());
    copy_bytes(stream, whole, on_device.view());
  }

  void fetch() {
    if (test::test_device().is_host()) return;
    Stream stream(test::test_device());
    copy_bytes(stream, on_device.view(), whole);
  }

  double at(std::int64_t row, std::int64_t column) const {
    return visit_floating(host.dtype(), [&](auto element) {
      using T = decltype(element);
      return static_cast<double>(
          static_cast<Accumulator<T>>(host.data<T>()[row * host.stride(0) + column]));
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

// The tensors of a case.
struct Tensors {
  Padded a, b, c, bias;

  explicit Tensors(const Case& x)
      : a(x.in, x.ta == yes ? x.k : x.m, x.ta == yes ? x.m : x.k, x.padding, 1),
        b(x.in, x.tb == yes ? x.n : x.k, x.tb == yes ? x.k : x.n, 2 * x.padding, 2),
        c(x.out, x.m, x.n, 3 * x.padding, 3),
        bias(x.in, 1, x.n, 0, 4) {}

  void multiply(const Case& x) const {
    Stream stream(test::test_device());
    gemm(stream, c.view, a.view, x.ta, b.view, x.tb, x.accumulate,
         x.bias ? bias.view.reshape({x.n}) : TensorView());
  }
};

void expect_correct(const Case& x) {
  SCOPED_TRACE(format("[{}, {}] K {} A{} B{} {} -> {}{}{} padding {}", x.m, x.n, x.k,
                      x.ta == yes ? "^T" : "", x.tb == yes ? "^T" : "", name_of(x.in),
                      name_of(x.out), x.accumulate == Accumulate::yes ? " +=" : "",
                      x.bias ? " bias" : "", x.padding));
  Tensors t(x);
  const auto expected =
      reference::gemm(t.c.host, t.a.host, x.ta, t.b.host, x.tb, x.accumulate,
                      x.bias ? t.bias.host.reshape({x.n}) : TensorView());
  t.multiply(x);
  t.c.fetch();
  int wrong = 0;
  for (std::int64_t i = 0; i < x.m; ++i) {
    for (std::int64_t j = 0; j < x.n; ++j) {
      const double want = expected[static_cast<std::size_t>(i * x.n + j)];
      if (!(std::abs(t.c.at(i, j) - want) <= tolerance(x, want))) ++wrong;
    }
    for (std::int64_t j = x.n; j < x.n + 3 * x.padding; ++j)
      if (t.c.at(i, j) != sentinel) ++wrong;
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
  std::vector<std::int64_t> sizes = {1, 3, 17, 31, 64, 127};
  if (test::is_watched()) sizes = {1, 17, 65};
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
  if (test::test_device().is_cuda()) return;  // the cuts are those of hosts
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
  const Tensors t(x);
  t.multiply(x);
  const auto before = memory_allocations();
  t.multiply(x);
  EXPECT_EQ(memory_allocations(), before);
  Stream(test::test_device()).synchronize();
}

TEST_P(Gemm, SameBitsTwice) {
  const auto [in, out] = GetParam();
  const Case x{130, 70, 3000, no, yes, in, out};
  Tensors first(x), second(x);
  first.multiply(x);
  second.multiply(x);
  first.c.fetch();
  second.c.fetch();
  EXPECT_EQ(first.c.bytes, second.c.bytes);
}

// Starts that are aligned to an element alone.
TEST_P(Gemm, OddStarts) {
  const auto [in, out] = GetParam();
  for (const auto ta : {no, yes}) {
    const Case x{33, 40, 50, ta, yes, in, out, Accumulate::no, true};
    Tensors t(Case{34, 41, 51, ta, yes, in, out});
    const auto a_rows = ta == yes ? x.k : x.m, a_columns = ta == yes ? x.m : x.k;
    const auto inner = [](const TensorView& whole, std::int64_t rows,
                          std::int64_t columns) {
      return whole.rows(1, rows).columns(1, columns);
    };
    const auto tail = [&](const TensorView& row) {
      return row.columns(1, x.n).reshape({x.n});
    };
    const auto expected = reference::gemm(
        inner(t.c.host, x.m, x.n), inner(t.a.host, a_rows, a_columns), x.ta,
        inner(t.b.host, x.n, x.k), x.tb, Accumulate::no, tail(t.bias.host));
    Stream stream(test::test_device());
    gemm(stream, inner(t.c.view, x.m, x.n), inner(t.a.view, a_rows, a_columns), x.ta,
         inner(t.b.view, x.n, x.k), x.tb, Accumulate::no, tail(t.bias.view));
    t.c.fetch();
    for (std::int64_t i = 0; i < x.m; ++i) {
      for (std::int64_t j = 0; j < x.n; ++j) {
        const double want = expected[static_cast<std::size_t>(i * x.n + j)];
        ASSERT_NEAR(t.c.at(i + 1, j + 1), want, tolerance(x, want));
      }
    }
  }
}

// The search for the fastest product must leave sums as they were: it runs each proposal
// several times.
TEST_P(Gemm, SearchDoesNotAddTwice) {
  const auto [in, out] = GetParam();
  set_gemm_search(true);
  expect_correct({96, 80, 112, no, yes, in, out, Accumulate::yes, false, 3});
  expect_correct({96, 80, 112, yes, no, in, out, Accumulate::no, true});
  set_gemm_search(false);
}

INSTANTIATE_TEST_SUITE_P(Types, Gemm, testing::ValuesIn(all_types), [](const auto& info) {
  return format("{}_{}", name_of(info.param.in), name_of(info.param.out));
});

// TF32 keeps 10 bits of mantissa: nothing like f32, and enough for its own tolerance.
TEST(GemmTf32, OnlyWhenAskedFor) {
  ASSERT_FALSE(tf32());
  const Case x{64, 64, 512, no, yes, DType::f32, DType::f32};
  Tensors t(x);
  const auto expected = reference::gemm(t.c.host, t.a.host, no, t.b.host, yes);
  set_tf32(true);
  t.multiply(x);
  set_tf32(false);
  t.c.fetch();
  const double product_error = 2 * 0x1p-11;  // both operands rounded
  for (std::int64_t i = 0; i < x.m; ++i) {
    for (std::int64_t j = 0; j < x.n; ++j) {
      const double want = expected[static_cast<std::size_t>(i * x.n + j)];
      // Random errors of K products, each at most 1: six standard deviations.
      ASSERT_NEAR(t.c.at(i, j), want,
                  tolerance(x, want) + 6 * product_error * std::sqrt(double(x.k)));
    }
  }
}

TEST(GemmChecks, RefusesWhatDoesNotFit) {
  Stream stream(test::test_device());
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
