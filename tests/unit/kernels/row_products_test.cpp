// Products with independent rows: right, and the same to the bit in any company.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm/row_products.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/memory.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/random.hpp"

namespace trireme::kernels {
namespace {

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

double element(const TensorView& x, std::int64_t row, std::int64_t column) {
  return visit_floating(x.dtype(), [&](auto of) {
    using T = decltype(of);
    return static_cast<double>(Accumulator<T>(x.data<T>()[row * x.stride(0) + column]));
  });
}

// The last rows of a product, made alone, are the same to the bit.
void check_alone(const TensorView& c, const TensorView& a, const TensorView& b,
                 Transpose transpose_b, Accumulate accumulate, const TensorView& bias_N) {
  const std::int64_t M = c.dim(0), N = c.dim(1);
  for (const std::int64_t first : {M - 1, M / 2, M - std::min<std::int64_t>(M, 20)}) {
    const std::int64_t rows = M - first;
    const Buffer alone = matrix(c.dtype(), M, N, 4);
    gemm_by_rows(alone.view().rows(first, rows), a.rows(first, rows), b, transpose_b,
                 accumulate, bias_N);
    const auto row_bytes = static_cast<std::size_t>(N) * size_of(c.dtype());
    const auto* one = static_cast<const std::byte*>(alone.view().raw());
    const auto* other = static_cast<const std::byte*>(c.raw());
    const auto at = static_cast<std::size_t>(first) * row_bytes;
    EXPECT_EQ(
        std::memcmp(one + at, other + at, static_cast<std::size_t>(rows) * row_bytes), 0);
  }
}

// Rounding of K products of order 1, summed in 16 lanes: below 4 eps sqrt(K) of f32
// (f64), and of the result's type once.
void check(DType type, DType result, std::int64_t M, std::int64_t N, std::int64_t K,
           Transpose transpose_b, bool biased) {
  const Buffer a = matrix(type, M, K, 1);
  const Buffer b = transpose_b == yes ? matrix(type, N, K, 2) : matrix(type, K, N, 2);
  const Buffer bias = matrix(type, 1, N, 3);
  const TensorView bias_N = biased ? bias.view().reshape({N}) : TensorView();
  const Buffer c = matrix(result, M, N, 4), before = matrix(result, M, N, 4);
  const Accumulate accumulate = biased ? Accumulate::no : Accumulate::yes;
  gemm_by_rows(c.view(), a.view(), b.view(), transpose_b, accumulate, bias_N);
  const double sums = type == DType::f64 ? 0x1p-52 : 0x1p-23;
  const double rounded = result == DType::bf16  ? 0x1p-8
                         : result == DType::f16 ? 0x1p-11
                                                : 0;
  for (std::int64_t i = 0; i < M; ++i)
    for (std::int64_t j = 0; j < N; ++j) {
      double exact = biased ? element(bias.view(), 0, j) : element(before.view(), i, j);
      for (std::int64_t k = 0; k < K; ++k)
        exact += element(a.view(), i, k) *
                 (transpose_b == yes ? element(b.view(), j, k) : element(b.view(), k, j));
      ASSERT_NEAR(element(c.view(), i, j), exact,
                  8 * sums * std::sqrt(static_cast<double>(K)) * (1 + std::abs(exact)) +
                      rounded * std::abs(exact))
          << M << " x " << N << " x " << K << " at " << i << ", " << j;
    }
  check_alone(c.view(), a.view(), b.view(), transpose_b, accumulate, bias_N);
}

// Rows in panels of every height, and beside them.
TEST(RowProducts, AreProducts) {
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const DType result : {type, accumulator_of(type)})
      for (const auto [M, N, K] : {std::array<std::int64_t, 3>{1, 1, 1},
                                   {2, 7, 33},
                                   {5, 37, 130},
                                   {19, 65, 64},
                                   {31, 50, 66},
                                   {45, 3, 97},
                                   {83, 53, 70}})
        for (const Transpose transpose : {no, yes})
          for (const bool biased : {false, true})
            check(type, result, M, N, K, transpose, biased);
}

// So many elements that parts of K are summed in turn.
TEST(RowProducts, OfLongRowsAreIndependent) {
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const Buffer a = matrix(type, 70, 2100, 1), b = matrix(type, 50, 2100, 2),
                 c = matrix(type, 70, 50, 3);
    gemm_by_rows(c.view(), a.view(), b.view(), yes, Accumulate::no, {});
    check_alone(c.view(), a.view(), b.view(), yes, Accumulate::no, {});
  }
}

TEST(RowProducts, AreChosenOnRequest) {
  Stream stream;
  const Buffer a = matrix(DType::f32, 70, 100, 1), b = matrix(DType::f32, 30, 100, 2),
               c = matrix(DType::f32, 70, 30, 3), d = matrix(DType::f32, 70, 30, 3);
  set_independent_rows(true);
  gemm(stream, c.view(), a.view(), no, b.view(), yes);
  set_independent_rows(false);
  gemm_by_rows(d.view(), a.view(), b.view(), yes, Accumulate::no, {});
  EXPECT_EQ(std::memcmp(c.view().raw(), d.view().raw(), c.bytes()), 0);
}

}  // namespace
}  // namespace trireme::kernels
