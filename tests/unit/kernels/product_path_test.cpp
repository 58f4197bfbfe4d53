// Which path makes a product, that all paths agree, and the log of products.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm/amx_tile.hpp"
#include "kernels/gemm/bf16_product.hpp"
#include "kernels/gemm/path.hpp"
#include "kernels/gemm/product_log.hpp"
#include "kernels/random.hpp"

namespace trireme::kernels {
namespace {

using enum ProductPath;
constexpr auto no = Transpose::no, yes = Transpose::yes;

Buffer matrix(DType type, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  const auto make = [&](DType of) {
    return Buffer(Device::host(), of, {rows, columns}, MemoryClass::data, "test");
  };
  Buffer result = make(type);
  const Buffer drawn = make(accumulator_of(type));
  Stream stream;
  fill_normal(stream, drawn.view(), {rows, columns}, {0, 0}, seed, 1, 1.0);
  copy(stream, drawn.view(), result.view());
  return result;
}

Product forward(std::int64_t m, DType type) {
  return {.m = m,
          .n = 96,
          .k = 64,
          .a_stride = 64,
          .b_stride = 64,
          .c_stride = 96,
          .operands = type,
          .result = type,
          .transposed_right = true};
}

TEST(ProductPath, FollowsTheRule) {
  EXPECT_EQ(choose_path(forward(1, DType::f64)), blas);
  for (const DType type : {DType::f32, DType::bf16}) {
    EXPECT_EQ(choose_path(forward(1, type)), few_rows);
    EXPECT_EQ(choose_path(forward(4, type)), few_rows);
    EXPECT_NE(choose_path(forward(5, type)), few_rows);
    Product untransposed = forward(1, type);
    untransposed.transposed_right = false;
    EXPECT_NE(choose_path(untransposed), few_rows);
  }
  EXPECT_EQ(choose_path(forward(65, DType::f32)), sgemm);
  EXPECT_EQ(choose_path(forward(65, DType::f16)), converted);
  EXPECT_EQ(choose_path(forward(65, DType::bf16)),
            has_amx() ? amx : (bf16_products_pay() ? bf16 : converted));
}

TEST(ProductPath, ASlowPathHasAReason) {
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t m : {1, 3, 30, 300}) {
      const Product product = forward(m, type);
      EXPECT_EQ(why_slow(product).empty(), choose_path(product) != converted);
      EXPECT_EQ(paths_of(product).front(), choose_path(product));
    }
}

// Every path gives the sums of every other but for the order of additions: terms are at
// most 25 in size (five deviations each), 200 of them, rounded 200 times in f32.
TEST(ProductPath, AllPathsAgree) {
  const std::int64_t k = 200, n = 61;
  const double tolerance = 200 * 200 * 25 * 0x1p-24;
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t m : {1, 3, 20})
      for (const Transpose tb : {no, yes}) {
        const Buffer a = matrix(type, m, k, 1);
        const Buffer b = tb == yes ? matrix(type, n, k, 2) : matrix(type, k, n, 2);
        const Buffer bias = matrix(type, 1, n, 3);
        const TensorView bias_N = bias.view().reshape({n});
        const Buffer c = matrix(DType::f32, m, n, 4), other = matrix(DType::f32, m, n, 4);
        const auto paths = paths_of(
            product_of(c.view(), a.view(), no, b.view(), tb, Accumulate::no, bias_N));
        for (const ProductPath path : paths) {
          SCOPED_TRACE(format("{} of {}, {} rows", name_of(path), name_of(type), m));
          multiply_by(paths.front(), c.view(), a.view(), no, b.view(), tb, Accumulate::no,
                      bias_N);
          multiply_by(path, other.view(), a.view(), no, b.view(), tb, Accumulate::no,
                      bias_N);
          for (std::int64_t i = 0; i < m * n; ++i)
            ASSERT_NEAR(c.view().data<float>()[i], other.view().data<float>()[i],
                        tolerance);
        }
      }
}

// Only on a processor that has the instruction, and not on one thread alone.
void expect_cuts_added_in_f32(ProductPath path) {
  const std::int64_t m = 19, n = 50, k = 3001;  // three parts of K
  const Buffer a = matrix(DType::bf16, m, k, 1), b = matrix(DType::bf16, n, k, 2);
  const Buffer bias = matrix(DType::bf16, 1, n, 3);
  const Buffer exact = matrix(DType::f32, m, n, 4),
               rounded = matrix(DType::bf16, m, n, 5);
  const TensorView bias_N = bias.view().reshape({n});
  for (const TensorView& c : {exact.view(), rounded.view()})
    multiply_by(path, c, a.view(), no, b.view(), yes, Accumulate::no, bias_N);
  for (std::int64_t i = 0; i < m * n; ++i) {
    const float sum = exact.view().data<float>()[i];
    // Rounded once: half a unit in the last place of eight bits, and what the order of
    // the bias's addition costs in f32.
    EXPECT_NEAR(static_cast<float>(rounded.view().data<BFloat16>()[i]), sum,
                std::abs(sum) * 0x1p-8 + 0x1p-14);
  }
}

TEST(ProductPath, CutsOfBf16ProductsAreAddedInF32) {
  if (!has_bf16_products()) GTEST_SKIP() << "this processor has no products of bf16";
  expect_cuts_added_in_f32(bf16);
}

TEST(ProductPath, CutsOfAmxProductsAreAddedInF32) {
  if (!has_amx()) GTEST_SKIP() << "this processor has no AMX";
  expect_cuts_added_in_f32(amx);
}

// Every number of lines and columns of a last tile, K that is odd and ends within a tile,
// each transposition, sums added to C: products of whole numbers are exact.
TEST(ProductPath, TilesOfAllExtentsAreExact) {
  const auto whole = [](std::int64_t rows, std::int64_t columns, int seed) {
    Buffer made(Device::host(), DType::bf16, {rows, columns}, MemoryClass::workspace,
                "whole");
    for (std::int64_t i = 0; i < rows * columns; ++i)
      made.view().data<BFloat16>()[i] = BFloat16(static_cast<float>((i * seed) % 7 - 3));
    return made;
  };
  // What earlier products leave in working memory must not be read.
  Buffer endless = whole(128, 128, 1), lost = matrix(DType::f32, 128, 128, 1);
  std::fill_n(endless.view().data<BFloat16>(), 128 * 128, BFloat16(INFINITY));
  const TensorView of = endless.view();
  for (const ProductPath path :
       paths_of(product_of(lost.view(), of, no, of, yes, Accumulate::no, {})))
    multiply_by(path, lost.view(), of, no, of, yes, Accumulate::no, {});
  for (const std::int64_t m : {5, 16, 17, 33, 64, 79})
    for (const std::int64_t n : {1, 15, 16, 31, 32, 49, 97})
      for (const std::int64_t k : {1, 31, 64, 101})
        for (const Transpose ta : {no, yes})
          for (const Transpose tb : {no, yes}) {
            const Buffer a = ta == yes ? whole(k, m, 5) : whole(m, k, 5);
            const Buffer b = tb == yes ? whole(n, k, 11) : whole(k, n, 11);
            Buffer c = matrix(DType::f32, m, n, 4), other = matrix(DType::f32, m, n, 4);
            for (const auto* made : {&c, &other})
              std::fill_n(made->view().data<float>(), m * n, 1.0f);
            const auto paths = paths_of(
                product_of(c.view(), a.view(), ta, b.view(), tb, Accumulate::yes, {}));
            multiply_by(converted, c.view(), a.view(), ta, b.view(), tb, Accumulate::yes,
                        {});
            for (const ProductPath path : paths) {
              std::fill_n(other.view().data<float>(), m * n, 1.0f);
              multiply_by(path, other.view(), a.view(), ta, b.view(), tb, Accumulate::yes,
                          {});
              for (std::int64_t i = 0; i < m * n; ++i)
                ASSERT_EQ(c.view().data<float>()[i], other.view().data<float>()[i])
                    << name_of(path) << " " << m << " " << n << " " << k << " at " << i;
            }
          }
}

// So few terms that more rows fit into the room of packed ones than are counted.
TEST(ProductPath, ManyRowsOfShortSumsAreExact) {
  const std::int64_t m = 140001, n = 17;
  for (const std::int64_t k : {1, 3, 17}) {
    Buffer a(Device::host(), DType::bf16, {m, k}, MemoryClass::data, "a");
    Buffer b(Device::host(), DType::bf16, {n, k}, MemoryClass::data, "b");
    const Buffer c(Device::host(), DType::f32, {m, n}, MemoryClass::data, "c");
    const auto number = [](std::int64_t i) { return static_cast<float>(i % 5 - 2); };
    for (std::int64_t i = 0; i < m * k; ++i)
      a.view().data<BFloat16>()[i] = BFloat16(number(i));
    for (std::int64_t i = 0; i < n * k; ++i)
      b.view().data<BFloat16>()[i] = BFloat16(number(i + 1));
    for (const ProductPath path : paths_of(
             product_of(c.view(), a.view(), no, b.view(), yes, Accumulate::no, {}))) {
      multiply_by(path, c.view(), a.view(), no, b.view(), yes, Accumulate::no, {});
      for (std::int64_t i = 0; i < m * n; ++i) {
        float sum = 0;
        for (std::int64_t j = 0; j < k; ++j)
          sum += number(i / n * k + j) * number(i % n * k + j + 1);
        ASSERT_EQ(c.view().data<float>()[i], sum) << name_of(path) << " of " << k;
      }
    }
  }
}

TEST(ProductLog, CountsCallsByShape) {
  const Buffer a = matrix(DType::f32, 8, 16, 1), b = matrix(DType::f32, 24, 16, 2);
  const Buffer c = matrix(DType::f32, 8, 24, 3);
  Stream stream;
  const auto multiply = [&](std::int64_t rows) {
    gemm(stream, c.view().rows(0, rows), a.view().rows(0, rows), no, b.view(), yes);
  };
  multiply(8);
  EXPECT_TRUE(product_log().empty());  // off at first
  start_product_log();
  multiply(8);
  multiply(8);
  multiply(2);
  const auto products = product_log();
  stop_product_log();
  ASSERT_EQ(products.size(), 2U);
  std::int64_t calls = 0;
  for (const LoggedProduct& entry : products) {
    EXPECT_EQ(entry.calls, entry.product.m == 8 ? 2 : 1);
    EXPECT_EQ(entry.path, choose_path(entry.product));
    EXPECT_GT(entry.seconds, 0);
    EXPECT_GT(product_rate(entry.product, entry.path, 1e-4), 0);
    calls += entry.calls;
  }
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(product_log().empty());
}

}  // namespace
}  // namespace trireme::kernels
